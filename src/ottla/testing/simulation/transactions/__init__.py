"""Simulated transactional clients, and the checks on them.

Reading order: attempts, calls, clients, reader, scenario, check, probe, bugs.
"""
