"""Exactly once under fire: a pipeline that is killed at random points, and what it has written at the end.

    python -m tests.spark.fire --records 2000000 --kills 30 --seed 1                  # format `ottla`
    python -m tests.spark.fire --records 2000000 --kills 30 --seed 1 --format kafka   # Spark's own connector

Numbered records go into an input topic. A driver (job.py) copies them to two topics and counts them in
windows, written to a third. The harness (run.py) kills its JVM, its Python workers and the broker, and asks
it to stop, at points drawn from a seed (plan.py); it starts again what has died. At the end an unrelated
client reads the outputs with read_committed and compares them, record by record, with what must be there
(ledger.py).
"""
