"""Who runs the cluster: decides what becomes of a request to change it, and carries that out.

`machine` decides. It is pure: an image and a request go in, records and answers come out, and neither
time nor chance nor IO has a part in it. `runner` is what the rest of the broker calls; `writer` is the IO:
one decision at a time, it appends the records to the metadata store, folds them into the next
`ClusterImage`, and only then answers. Since the image is nothing but the fold of its records, what
survives a restart and what was answered can never differ.
"""
