"""Configuration: every option is declared once, and a running broker's can change.

Reading order:

    types            the kinds of values, and checks on them
    declaration      Key: one option; Config: a class of keys with their values
    network_keys, metrics_keys, zookeeper_keys, controller_keys, log_keys, replication_keys,
      coordinator_keys, transaction_keys, quota_keys, security_keys, authorization_keys, schema_keys
                     the broker's keys, by subject
    listener_keys, security_check    keys of one listener; what no security key can check alone
    broker           BrokerConfig: all broker keys, and the source of each value
    topic            TopicConfig: a topic's settings over the broker's defaults
    group_keys       GroupConfig, ClientMetricsConfig: the other resources that have settings
    live             LiveConfig: the configuration in force; parts of a broker subscribe to keys
    options          Options: a client's options as a dataclass of keys
    unimplemented    Kafka's keys that are refused
    properties       Java's .properties files
    docs             docs/configuration.md
"""
