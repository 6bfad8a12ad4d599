"""The end of a transaction by the short way; by the general one, if that is not possible or goes wrong."""

import pytest
from kio.schema.end_txn.v5 import EndTxnResponse
from kio.schema.errors import ErrorCode

from ottla.client.cluster import Cluster
from ottla.client.coordinators import CoordinatorKind
from ottla.client.errors import ConnectionLost
from ottla.client.producer import ProducerOptions
from ottla.client.producer.batch import Identity
from ottla.client.producer.transaction_calls import TransactionCalls
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ProducerFenced
from ottla.protocol.schema.messages import response_encoder
from ottla.protocol.types import NO_THROTTLE
from ottla.wire.address import Address
from ottla.wire.in_flight import Response

BEFORE, AFTER = Identity(7, 3), Identity(7, 4)
LOST = ConnectionLost(Address("fake", 9092), "gone")


def ended(identity=AFTER, code=ErrorCode.none):
    return EndTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
    )


class FakeConnection:
    """Answers by the short way what `short` says, and by the general one what `general` says."""

    is_ready = True

    def __init__(self, short, general=None, newest=5):
        self.short, self.general, self.newest = short, general, newest
        self.posted, self.requested = 0, []

    def version_of(self, api_key, newest):
        assert api_key == ApiKey.END_TXN
        return min(newest, self.newest)

    async def send(self, api_key, version, body, timeout_ms):
        self.posted += 1
        if isinstance(self.short, Exception):
            raise self.short
        return Response(memoryview(response_encoder(api_key, version, 5)(self.short)), 0)

    async def request(self, request, response_type, *, timeout_ms, version):
        self.requested.append((version, request.producer_epoch, request.committed))
        return self.general


@pytest.fixture
async def end(monkeypatch):
    """Return a function that ends a transaction at a connection."""
    cluster = Cluster([Address("fake", 9092)])
    calls = TransactionCalls(cluster, ProducerOptions(transactional_id="t"))
    calls._coordinators._known[CoordinatorKind.TRANSACTION, "t"] = 1

    async def run(connection, is_implicit=True):
        async def broker(node_id):
            return connection

        monkeypatch.setattr(cluster, "open_connection", lambda node_id: connection)
        monkeypatch.setattr(cluster, "broker", broker)
        return await calls.end(BEFORE, commit=True, is_implicit=is_implicit)

    return run


async def test_an_end_that_goes_well_is_one_request(end):
    connection = FakeConnection(ended())
    assert await end(connection) == AFTER
    assert (connection.posted, connection.requested) == (1, [])


@pytest.mark.parametrize("short", [LOST, ended(Identity(), ErrorCode.concurrent_transactions)])
async def test_what_goes_wrong_is_asked_for_again_under_the_same_epoch(end, short):
    connection = FakeConnection(short, ended())
    assert await end(connection) == AFTER
    assert (connection.posted, connection.requested) == (1, [(5, 3, True)])


async def test_a_refusal_is_raised_by_the_general_way(end):
    fenced = ended(Identity(), ErrorCode.producer_fenced)
    with pytest.raises(ProducerFenced):
        await end(FakeConnection(fenced, fenced))


@pytest.mark.parametrize(("newest", "is_implicit"), [(4, True), (5, False)])
async def test_older_brokers_and_the_classic_protocol_go_the_general_way(end, newest, is_implicit):
    connection = FakeConnection(LOST, ended(), newest)
    await end(connection, is_implicit)
    assert (connection.posted, connection.requested) == (0, [(4, 3, True)])


async def test_a_connection_that_is_not_ready_is_waited_for(end):
    connection = FakeConnection(LOST, ended())
    connection.is_ready = False
    assert await end(connection) == AFTER
    assert (connection.posted, len(connection.requested)) == (0, 1)
