"""The broker: constructs every part, starts them in order and stops them in reverse.

Reading order:

    broker             start and stop of one broker; the only module that constructs its parts
    settings           the settings of each part, from the configuration
    addresses          ports, advertised addresses, addresses of other brokers
    data_directory     the data directory before the logs are opened; stray logs
    full_disk          gives up leadership of what is on a full disk
    run                the broker as a process: event loop, signals, exit code
    offline_directories    replicas of a failed log directory
    security           how clients authenticate, and how the broker does to others
    sasl_mechanisms, gssapi    the SASL mechanisms of a listener
    oauth_tokens, jwks, allowed_urls    tokens of this broker; keys that verify tokens of clients
    audit_topic        writes the audit log to the topic `__audit`
    zookeeper_server   a ZooKeeper server for clusters on one machine
"""

from ottla.broker.addresses import BrokerAddresses
from ottla.broker.broker import Broker
from ottla.broker.data_directory import StartError
from ottla.broker.run import run

__all__ = ["Broker", "BrokerAddresses", "StartError", "run"]
