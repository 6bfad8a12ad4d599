"""The broker: builds every part, starts them in order and stops them in reverse."""

from ottla.broker.broker import Broker, BrokerAddresses, StartError
from ottla.broker.run import run

__all__ = ["Broker", "BrokerAddresses", "StartError", "run"]
