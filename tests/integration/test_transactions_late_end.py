"""An end that arrives late: after the client has repeated it, and has begun the next transaction.

The first generation of the protocol cannot tell it from the end of the next transaction: what is unfinished
becomes visible, and what follows is lost. That is inherent, the same with Apache Kafka, and described in
docs/transactions.md. In the second generation (transaction.version=2, KIP-890) every transaction has an epoch
of its own, and a late end is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import HasAddress, Refused, wait_until
from tests.integration.holding_proxy import HoldingProxy
from tests.integration.transaction_libraries import ALL, CLASSIC
from tests.integration.transaction_stage import BROKER_SETTINGS, Stage, out, stage
from tests.integration.transactions import TransactionalProducer

from ottla.protocol.api_keys import ApiKey

__all__ = ["BROKER_SETTINGS", "stage"]


@pytest.fixture
def proxy(broker: HasAddress) -> Iterator[HoldingProxy]:
    with HoldingProxy(broker.address) as opened:
        yield opened


def code_of(answer: bytes, *, flexible: bool) -> ErrorCode:
    """Return the error code of an EndTxn answer: after the tags of its header, and the throttle time."""
    at = 5 if flexible else 4
    return ErrorCode(int.from_bytes(answer[at : at + 2], "big"))


def end_late(stage: Stage, proxy: HoldingProxy, topic: str, commit: bool) -> TransactionalProducer:
    """Write and end a transaction whose end will arrive a second time."""
    producer = stage.producer(through=proxy.address)
    producer.begin()
    producer.send(topic, out(b"first"))
    proxy.hold_next(ApiKey.END_TXN)
    if commit:
        producer.commit()
    else:
        producer.abort()
    assert proxy.is_held.is_set()
    reader = stage.reader()
    wait_until(lambda: reader.end((topic, 0)) == 2, "the marker of the first transaction")
    return producer


@pytest.mark.parametrize("stage", CLASSIC, indirect=True)
def test_classic_a_late_commit_makes_half_of_the_next_transaction_visible(
    stage: Stage, proxy: HoldingProxy
) -> None:
    topic = stage.topic()
    producer = end_late(stage, proxy, topic, commit=True)
    producer.begin()
    producer.send(topic, out(b"half of the second"))
    assert code_of(proxy.deliver(), flexible=False) == ErrorCode.none
    with pytest.raises(Refused):
        producer.abort()  # too late: it has been committed
    assert stage.read(topic) == [[b"first", b"half of the second"]]


@pytest.mark.parametrize("stage", CLASSIC, indirect=True)
def test_classic_a_late_abort_throws_away_half_of_the_next_transaction(
    stage: Stage, proxy: HoldingProxy
) -> None:
    topic = stage.topic()
    producer = end_late(stage, proxy, topic, commit=False)
    producer.begin()
    producer.send(topic, out(b"half of the second"))
    assert code_of(proxy.deliver(), flexible=False) == ErrorCode.none
    with pytest.raises(Refused):
        producer.send(topic, out(b"the other half"))
        producer.commit()
    assert stage.read(topic) == [[]]


@pytest.mark.parametrize("stage", sorted(ALL.keys() - CLASSIC.keys()), indirect=True)
@pytest.mark.parametrize("late", ["commit", "abort"])
@pytest.mark.parametrize("second", ["commit", "abort"])
@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_with_version_2_a_late_end_changes_nothing(
    stage: Stage, proxy: HoldingProxy, late: str, second: str, when: str
) -> None:
    topic = stage.topic()
    producer = end_late(stage, proxy, topic, commit=late == "commit")
    reader = stage.reader()
    if when == "before":
        # Nothing has begun since: it is the repetition of what was done, and answered as such.
        assert code_of(proxy.deliver(), flexible=True) == ErrorCode.none
    producer.begin()
    producer.send(topic, out(b"half of the second"))
    if when == "within":
        assert code_of(proxy.deliver(), flexible=True) == ErrorCode.producer_fenced
        assert reader.end((topic, 0)) == 2
    producer.send(topic, out(b"the other half"))
    if second == "commit":
        producer.commit()
    else:
        producer.abort()
    wait_until(lambda: reader.end((topic, 0)) == 5, "the marker of the second transaction")
    if when == "after":
        assert code_of(proxy.deliver(), flexible=True) == ErrorCode.producer_fenced
    first = [b"first"] if late == "commit" else []
    rest = [b"half of the second", b"the other half"] if second == "commit" else []
    assert stage.read(topic) == [first + rest]
