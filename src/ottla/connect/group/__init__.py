"""The group of workers, as Kafka Connect has it.

    protocol    the bytes of metadata and assignments
    assignor    which worker runs which connectors and tasks; pure

Joining and heartbeats are in client/group_membership.py.
"""
