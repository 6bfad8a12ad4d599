"""Test support, shipped with the product: for tests of Ottla, and of programs that use Kafka.

For programs (docs/testing.md):

    plugin              pytest fixtures
    local_broker, local_cluster     real brokers in the process of the test
    topic_probe         reads and checks topics

For tests of the broker:

    broker_process, cluster_process     brokers and ZooKeeper as processes: start, stop, kill, pause
    group_member, classic_member, consumer_member   light members of consumer groups
    ownership           checks the history of their partitions
    history, checker    what clients did and saw, and the checks on it
    replica_check       compares the replicas on the disks of stopped brokers
    simulation/, simulate       whole clusters in virtual time, by seed
    month               a month of operations: are health, metrics and logs right?
"""
