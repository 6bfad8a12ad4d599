"""Consumer groups as a pure state machine: no IO, no clock, no randomness.

Reading order:

    requests                   requests and replies
    records, record_codec      what `__consumer_offsets` stores
    group                      the interface of a group, for both protocols
    machine                    dispatches requests and timers; replays records
    offsets                    committed offsets, also those pending in transactions; expiry
    classic/                   the classic protocol: members join, their leader assigns
    consumer/                  the consumer protocol (KIP-848): the coordinator assigns
    classic_in_consumer_group  classic members of a consumer group
    migration                  conversion between the protocols
    embedded_protocol          what the coordinator reads of classic members' subscriptions and assignments
    regex, regex_parser        subscriptions by regular expression
"""
