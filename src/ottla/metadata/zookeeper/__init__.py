"""The metadata store of a cluster, in ZooKeeper.

Reading order: store, log, sessions, client (the connection), types,
ensemble (which servers serve).
"""
