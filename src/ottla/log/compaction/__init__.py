"""Compaction: keep the latest record of each key. The policy, one job over one log, and the scheduler.

Reading order: policy (the algorithm), offset_map, batch_filter (which records are kept), job, log_cleaner.
"""
