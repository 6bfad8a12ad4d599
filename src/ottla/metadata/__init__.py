"""What the cluster is: its brokers, topics, partitions and configs, as a log of small records.

The state of the cluster is an ordered log of `MetadataRecord`s (records.py). Every broker folds it
into an immutable `ClusterImage` (image.py); whoever holds an image may keep it for as long as it
likes, since a change makes a new one. `ClusterState` (state.py) holds the newest image and tells
its subscribers about each change.

The log itself is kept by a `MetadataStore` (store.py), of which there are several: `EmbeddedStore`
(embedded.py over metadata_file.py: one SQLite file, one broker), `ZooKeeperStore` (zookeeper.py: a
cluster) and `MemoryStore` (memory.py over memory_server.py: simulations and tests). Each broker has a
session with the store, with what it says about itself (registration.py). Only the controller appends,
fenced by its epoch; deciding *what* to append is the business of `ottla.controller`.
"""
