"""The sink: every batch becomes visible atomically and exactly once, whichever process is killed.

Reading order:

    writers         what Spark calls: stream and batch writers
    writing         the options, and a task: rows -> transaction -> prepare
    rows, row_encoder, partitioning, serializing    from Arrow to encoded record batches, by partition
    transaction     the producer of a task
    decisions       the state machine of decisions: pure
    decision_log    the topic that stores which batch of which query is decided
    committing      the driver's part: decide a batch, commit its transactions, abort leftovers
    ending          end prepared transactions
    recovery        end the transactions of queries that will not run again: `ottla txn spark`
    crash_points    where tests kill drivers

docs/spark.md describes the protocol, and decision 37 why it was chosen.
"""
