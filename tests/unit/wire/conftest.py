"""The broker in memory of the clients' tests."""

from tests.unit.client.conftest import network as network
from tests.unit.client.conftest import peer as peer
