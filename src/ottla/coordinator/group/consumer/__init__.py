"""The consumer group protocol (KIP-848): the coordinator assigns, members reconcile step by step.

Reading order: `group` and `member` (state), `partitions` (sets of them), `requests`, `update` (one event on a
group), `heartbeat`, `subscription` (epochs, regular expressions), `target` (assignment) with `assign_types`,
`assign_range` and `assign_uniform`, `reconcile` (from the current assignment to the target), `leave`,
`events` (the interface to the machine).
"""
