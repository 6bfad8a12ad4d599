"""Fault injection: kill a pipeline at random points, and check that its output is exactly once.

    python -m tests.spark.fault_injection --records 2000000 --kills 30                  # format `ottla`
    python -m tests.spark.fault_injection --records 2000000 --kills 30 --format kafka   # Spark's connector
    python -m tests.spark.fault_injection --minutes 10 --brokers 3 --executors 2        # steady state

Numbered records go into an input topic. A driver (job.py) copies them to two topics, counts them in windows,
written to a third, and keeps a table of totals, upserted into a fourth. The harness (run.py) kills its JVM,
its executors, its Python workers and the brokers, and asks it to stop, at points drawn from a seed (plan.py);
it starts again what has died. At the end an unrelated client reads the outputs with read_committed and
compares them, record by record, with what must be there (ledger.py).
"""
