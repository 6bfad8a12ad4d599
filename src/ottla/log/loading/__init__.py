"""Opening a log: after a clean shutdown from its files, after a crash with recovery.

Reading order: loader, recovery, scan (telling intact batches from damage), replay (state that follows from
the batches; also used by a running log after a truncation).
"""
