"""Coordinators of groups and transactions: pure state machines on internal topics, and the IO around them.

Reading order:

    effects           Step, Reply, timers: what a state machine asks of its runtime
    runtime           runs a machine on one partition: append, apply, wait for the commit, reply
    partition_writer  the log under a machine: records to batches, and replay when a partition is loaded
    partitions        the partitions of an internal topic that this broker leads; loading and unloading
    record_schema     codecs of stored records, compiled from the dataclasses that declare them
    group/            the group machine (pure)
    groups, lag       the group coordinator, and the lag of its groups
    transaction/      the transaction machine (pure)
    transactions      the transaction coordinator
    markers           sends the markers of decided transactions to the leaders, until all are written
    marker_appender   appends markers to partitions that are led from here
"""
