"""The partitions of this broker: replication, the in-sync replicas, the high watermark, and waiting requests.

Reading order:

    partition         one partition: append, commit, read, wait for a commit
    purgatory         fetches that wait for data
    backlog           how far a leader may get ahead of its followers
    isr, leader       which replicas are in sync and what is committed (pure); a leader's side of it
    leader_epochs     fencing and truncation by leader epoch
    follower          applying fetched data to one partition
    replica_fetcher   one fetcher per leader (its fetch session is in ottla.wire)
    replicator        all fetchers, ISR changes and high watermark checkpoints of a broker
    throttle          limits on the replication of partitions that are being moved
    registry          all partitions of this broker, kept in step with the cluster image
    directory_moves   moves replicas between the log directories of this broker
    counters          traffic and events, for metrics
"""
