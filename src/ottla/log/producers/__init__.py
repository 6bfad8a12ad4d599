"""Idempotent producers and open transactions of one log.

Reading order:

    producer_state      sequence numbers and epochs by producer, open transactions, snapshots
    producer_limit      how many producers a broker remembers
    verification        transactional batches that wait for the coordinator's answer
    failed_appends      batches that could not be written, and those that follow them
"""
