"""The classic group protocol.

Reading order: `group` (state and rules), `update` (one event on it), `join`, `rebalance`, `members`
(SyncGroup, LeaveGroup, sessions), `events` (the interface to the machine), `record` (storage, description).
"""
