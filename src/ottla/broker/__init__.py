"""The broker: builds every part, starts them in order and stops them in reverse."""

from ottla.broker.addresses import BrokerAddresses
from ottla.broker.broker import Broker
from ottla.broker.data_directory import StartError
from ottla.broker.run import run

__all__ = ["Broker", "BrokerAddresses", "StartError", "run"]
