"""DescribeClientQuotas and AlterClientQuotas, as bytes, against a real controller."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.alter_client_quotas.v1 import AlterClientQuotasRequest
from kio.schema.alter_client_quotas.v1.request import EntityData, EntryData, OpData
from kio.schema.describe_client_quotas.v1 import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.request import ComponentData
from kio.schema.errors import ErrorCode
from tests.unit.api.conftest import AdminBench

from ottla.metadata.image import EMPTY
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.types import f64, i8

Entity = dict[str, str | None]


def entry(entity: Entity, **values: float | None) -> EntryData:
    return EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()),
        ops=tuple(
            OpData(key=key, value=f64(value or 0), remove=value is None) for key, value in values.items()
        ),
    )


async def alter(bench: AdminBench, *entries: EntryData, version: int = 1, validate_only: bool = False) -> Any:
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    return (await bench.ask(request, version)).entries


async def describe(
    bench: AdminBench, *components: tuple[str, int, str | None], version: int = 1, strict: bool = False
) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    request = DescribeClientQuotasRequest(
        components=tuple(
            ComponentData(entity_type=kind, match_type=i8(how), match=name) for kind, how, name in components
        ),
        strict=strict,
    )
    response = await bench.ask(request, version)
    assert response.error_code is ErrorCode.none
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in response.entries
    }


@pytest.mark.parametrize("version", [0, 1])
async def test_a_quota_that_is_set_is_described(bench: AdminBench, version: int) -> None:
    (result,) = await alter(
        bench,
        entry({"client-id": None, "user": "alice"}, producer_byte_rate=1024, request_percentage=12.5),
        version=version,
    )
    assert result.error_code is ErrorCode.none
    assert [(part.entity_type, part.entity_name) for part in result.entity] == [
        ("client-id", None),
        ("user", "alice"),
    ]
    assert await describe(bench, version=version) == {
        (("user", "alice"), ("client-id", None)): {"producer_byte_rate": 1024, "request_percentage": 12.5}
    }


async def test_quotas_are_changed_and_removed_one_by_one(bench: AdminBench) -> None:
    await alter(bench, entry({"user": "alice"}, producer_byte_rate=1, consumer_byte_rate=2))
    await alter(bench, entry({"user": "alice"}, producer_byte_rate=3, request_percentage=None))
    alice = (("user", "alice"),)
    assert await describe(bench) == {alice: {"producer_byte_rate": 3, "consumer_byte_rate": 2}}
    await alter(bench, entry({"user": "alice"}, producer_byte_rate=None, consumer_byte_rate=None))
    assert await describe(bench) == {}
    assert bench.image.client_quotas == {}


async def test_a_bad_entry_fails_alone_and_changes_nothing(bench: AdminBench) -> None:
    results = await alter(
        bench,
        entry({"user": "alice"}, producer_byte_rate=1, no_such_key=2),
        entry({"user": "bob"}, producer_byte_rate=1),
        entry({"ip": "10.0.0.1"}, connection_creation_rate=10),
        entry({"ip": "10.0.0.1", "user": "bob"}, connection_creation_rate=10),
    )
    codes = [each.error_code for each in results]
    invalid, fine = ErrorCode.invalid_request, ErrorCode.none
    assert codes == [invalid, fine, fine, invalid]
    assert "no_such_key" in results[0].error_message
    assert set(await describe(bench)) == {(("user", "bob"),), (("ip", "10.0.0.1"),)}


async def test_an_entity_that_is_named_twice_is_refused(bench: AdminBench) -> None:
    same = entry({"user": "alice"}, producer_byte_rate=1)
    assert [each.error_code for each in await alter(bench, same, same)] == [ErrorCode.invalid_request] * 2


async def test_a_validated_request_changes_nothing(bench: AdminBench) -> None:
    good, bad = entry({"user": "a"}, producer_byte_rate=1), entry({"user": "b"}, producer_byte_rate=-1)
    results = await alter(bench, good, bad, validate_only=True)
    assert [each.error_code for each in results] == [ErrorCode.none, ErrorCode.invalid_request]
    assert bench.image.client_quotas == {}


async def test_a_filter_is_applied(bench: AdminBench) -> None:
    await alter(
        bench,
        entry({"user": "alice"}, producer_byte_rate=1),
        entry({"user": "alice", "client-id": "app"}, producer_byte_rate=1),
        entry({"client-id": None}, producer_byte_rate=1),
    )
    alice, alice_app = (("user", "alice"),), (("user", "alice"), ("client-id", "app"))
    assert set(await describe(bench, ("user", 0, "alice"))) == {alice, alice_app}
    assert set(await describe(bench, ("user", 0, "alice"), strict=True)) == {alice}
    assert set(await describe(bench, ("client-id", 1, None))) == {(("client-id", None),)}
    with pytest.raises(InvalidRequest):
        await describe(bench, ("user", 9, None))


async def test_a_snapshot_of_the_metadata_has_the_quotas(bench: AdminBench) -> None:
    await alter(bench, entry({"user": None, "client-id": "app"}, producer_byte_rate=7))
    image = bench.image
    assert EMPTY.apply(image.records(), image.version) == image
