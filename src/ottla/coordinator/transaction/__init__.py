"""Transactions as a pure state machine: no IO, no clocks, no randomness."""
