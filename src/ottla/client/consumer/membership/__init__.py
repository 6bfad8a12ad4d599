"""The consumer's group.

Reading order:

    group        commits, and a membership while there is a subscription
    commits      OffsetCommit and OffsetFetch; commits in the background
    listener     the rebalance listener, and errors of wrong use
    rebalances   steps that run during the application's calls: commit, call the listener, reassign
    membership   the base of the two protocols
    consumer     the consumer protocol (KIP-848): the coordinator assigns partitions
    classic      the classic protocol: the group's leader assigns partitions
    assignors    the strategies by which it does
"""
