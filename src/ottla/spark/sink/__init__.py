"""The sink: each batch is seen as a whole, once, whatever is killed and when.

    rows            from Arrow to encoded record batches, by topic and partition
    transaction     one task's transaction: taken, filled, prepared
    decisions       what may be done when: pure
    decision_log    the topic in which it stands which batch of which query is decided
    committing      ends the transactions of a batch, and those that earlier runs left behind
    writers         what Spark calls

docs/spark.md describes the protocol, and docs/decisions/0037 why it is this one.
"""
