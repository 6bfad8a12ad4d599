"""The cluster's brokers, topics, partitions and configs, as a log of small records.

The state of the cluster is an ordered log of `MetadataRecord`s. Every broker folds it into an immutable
`ClusterImage`; a change makes a new image, so an image may be kept for any time.

Reading order:

    records, entities, image   the records; brokers, topics and partitions; the image and its differences
    registration               what a broker publishes about itself while its session is alive
    store                      the interface of a store: append, read, watch, sessions, election
    state                      the newest image and its subscribers; the task that follows the log
    history                    controller terms, which tell two histories of a store apart
    backup_file, local_copy    the metadata as a file; the copy beside the logs of each broker
    rebuild                    the metadata of a cluster from the data of its brokers
    embedded                   one SQLite file, for one broker
    zookeeper                  a ZooKeeper ensemble, for a cluster
    memory                     in memory, for simulations and tests

Only the controller appends, fenced by its epoch; `ottla.controller` decides what to append.
"""
