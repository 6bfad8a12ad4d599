"""Who runs the cluster: decides what becomes of a request to change it, and carries that out.

`machine` decides. It is pure: an image and a request go in, records and answers come out, and neither
time nor chance nor IO has a part in it. `writer` is the IO: one decision at a time, it appends the records to
the metadata store, has them folded into the next `ClusterImage`, and only then answers. Since the image is
nothing but the fold of its records, what survives a restart and what was answered can never differ.

Every broker has a `Controller` (runner), a session in the store (membership) and may be elected. While it
is, a `Term` follows the sessions of all brokers, and its `Office` answers requests.
"""
