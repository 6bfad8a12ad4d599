"""Transactions as a pure state machine: no IO, no clock, no randomness.

Reading order: `transaction` (the state of a transactional id), `requests`, `machine`, `starting`
(InitProducerId), `ending` (EndTxn, timeouts), `record_codec` (`__transaction_state`).
"""
