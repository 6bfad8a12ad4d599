"""The client: a small asyncio core that talks to any broker of the Kafka protocol.

Read it from the bottom up:

    address      HOST:PORT, and lists of them
    errors       what can go wrong on this side of the wire
    connection   one socket: request in, reply out, versions agreed on first
    cluster      who leads what, one connection per broker, retries
    admin        topics, partitions and configs
    offsets      where a partition starts and ends, and which offset belongs to a time
    partitioner  which partition a key belongs to (as every Kafka client decides it)
    producer     records gather in batches, a background sender ships them
    consumer     reads assigned partitions from given offsets
    groups       who is in a group, how far it has read; moving and deleting groups
    lag          how far a group is behind, in records and in seconds

The command line is a thin face over it. Nothing here imports the broker's layers: only
`ottla.protocol` and `ottla.common`.
"""
