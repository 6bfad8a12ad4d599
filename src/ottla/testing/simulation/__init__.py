"""Whole clusters in virtual time, by seed.

Reading order:

    loop            the event loop in virtual time; simulated processes and clocks
    network, transport, disk    what processes use: connections and files that fail
    node, cluster   a broker with its disk; a cluster
    client, producer, consumer, group, operator     simulated clients
    plan, faults    what a seed means; the faults
    scenario        one seed: run the plan, heal, check
    compaction      the same with a compacted topic
    probe           invariants that are checked while the cluster runs
    month, health_monitor         a month of operations, and what operators see of it
    bugs, delivery_bugs     planted bugs, which the checks must find
    transactions/   the same for transactional clients
"""
