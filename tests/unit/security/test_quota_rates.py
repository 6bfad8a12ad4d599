from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.security.address_quotas import AddressQuotas
from ottla.security.quota_entities import CLIENT_ID, IP, PRODUCER_BYTE_RATE, USER, QuotaEntity
from ottla.security.quota_rates import MAX_CLIENTS, Measurements, QuotaWindows, TokenBucket

WINDOWS = QuotaWindows()
START_MS = 5_000_000


def test_a_client_may_use_one_window_at_once_and_then_waits_until_the_rest_is_paid() -> None:
    bucket = TokenBucket(1000, WINDOWS.window_ms, START_MS)
    assert bucket.take(1000, START_MS) == 0
    assert bucket.take(2500, START_MS) == 2500
    assert bucket.throttle_ms(START_MS + 1000) == 1500
    assert bucket.throttle_ms(START_MS + 2500) == 0


def test_silence_saves_no_more_than_one_window() -> None:
    bucket = TokenBucket(1000, WINDOWS.window_ms, START_MS)
    assert bucket.take(3000, START_MS + 100_000) == 2000


def test_the_throttle_time_fits_into_a_response_however_small_the_quota_is() -> None:
    bucket = TokenBucket(1, WINDOWS.window_ms, START_MS)
    for _ in range(3):
        assert bucket.take(1_000_000, START_MS) <= 2**31 - 1
    assert bucket.throttle_ms(START_MS) == 2**31 - 1


def test_what_is_given_back_does_not_count() -> None:
    bucket = TokenBucket(1000, WINDOWS.window_ms, START_MS)
    bucket.take(50_000, START_MS)
    assert bucket.take(-50_000, START_MS) == 0


@settings(deadline=None, max_examples=50)
@given(
    bound=st.integers(1_000, 100_000_000),
    sizes=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=20),
    service_ms=st.integers(0, 50),
)
def test_a_client_that_obeys_gets_its_rate_within_ten_percent_over_30_seconds(
    bound: int, sizes: list[float], service_ms: int
) -> None:
    """The client sends as fast as it can, and is silent for each throttle time; no request is larger than
    what the quota allows in a second.
    """
    bucket = TokenBucket(bound, WINDOWS.window_ms, START_MS)
    now_ms, sent, number, is_throttled = START_MS, 0.0, 0, False
    while now_ms < START_MS + 30_000:
        size = sizes[number % len(sizes)] * bound
        number += 1
        sent += size
        throttle_ms = bucket.take(size, now_ms)
        is_throttled |= throttle_ms > 0
        now_ms += max(1, service_ms, throttle_ms)
    assert sent <= 1.1 * bound * 30
    if is_throttled and service_ms <= min(sizes) * 1000:  # otherwise the client itself is slower
        assert sent >= 0.9 * bound * 30


def test_a_bucket_holds_as_much_as_all_windows_and_is_overdrawn_once() -> None:
    bucket = TokenBucket(2, WINDOWS.total_ms, START_MS)
    bucket.take(22, START_MS)
    assert bucket.throttle_ms(START_MS) == 0
    bucket.take(10, START_MS)
    assert bucket.throttle_ms(START_MS) == 5_000
    assert bucket.throttle_ms(START_MS + 4_999) > 0
    assert bucket.throttle_ms(START_MS + 5_000) == 0
    assert not bucket.is_idle(START_MS + 5_000)
    assert bucket.is_idle(START_MS + 16_000)
    bucket.take(23, START_MS + 100_000)
    assert bucket.throttle_ms(START_MS + 100_000) == 500  # it never holds more than 22


def measurements() -> Measurements:
    return Measurements(PRODUCER_BYTE_RATE, WINDOWS.window_ms)


def test_clients_of_one_user_share_the_quota_of_the_user() -> None:
    found = measurements()
    found.change_quotas({((USER, "alice"),): {PRODUCER_BYTE_RATE.name: 1000.0}})
    one, two = found.find("alice", "one", START_MS), found.find("alice", "two", START_MS)
    assert one is not None
    assert one is two
    assert found.find("bob", "one", START_MS) is None


def test_a_quota_of_the_default_client_id_is_one_for_each_client() -> None:
    found = measurements()
    found.change_quotas({((CLIENT_ID, None),): {PRODUCER_BYTE_RATE.name: 1000.0}})
    one, two = found.find("alice", "one", START_MS), found.find("alice", "two", START_MS)
    assert one is not two
    assert found.find("bob", "one", START_MS) is one


def test_a_changed_quota_applies_to_what_was_measured_before() -> None:
    found = measurements()
    found.change_quotas({((USER, None),): {PRODUCER_BYTE_RATE.name: 1e9}})
    bucket = found.find("alice", "", START_MS)
    assert bucket is not None
    bucket.take(1e9 + 50_000, START_MS)
    found.change_quotas({((USER, None),): {PRODUCER_BYTE_RATE.name: 1000.0}})
    again = found.find("alice", "", START_MS)
    assert again is not None
    assert again.throttle_ms(START_MS) == 50_000
    found.change_quotas({})
    assert found.find("alice", "", START_MS) is None


def test_clients_that_never_return_are_forgotten() -> None:
    found = measurements()
    found.change_quotas({((CLIENT_ID, None),): {PRODUCER_BYTE_RATE.name: 1000.0}})
    busy = found.find("alice", "busy", START_MS)
    assert busy is not None
    busy.take(1, START_MS)
    for number in range(2 * MAX_CLIENTS):
        found.find("alice", str(number), START_MS)
    assert found.find("alice", "busy", START_MS) is busy
    assert len(found._found) <= MAX_CLIENTS
    assert len(found._meters) <= MAX_CLIENTS + 1


def test_an_address_that_connects_too_often_is_throttled_for_one_window_at_most() -> None:
    quotas: dict[QuotaEntity, dict[str, float]] = {((IP, None),): {"connection_creation_rate": 2.0}}
    addresses = AddressQuotas(quotas, WINDOWS)
    throttled = [addresses.connected("10.0.0.1", START_MS) for _ in range(25)]
    assert throttled == [0] * 22 + [500] * 3  # as many as in eleven windows
    assert addresses.connected("10.0.0.2", START_MS) == 0
    accepted = [
        at_ms for at_ms in range(20_000, 90_000, 10) if not addresses.connected("10.0.0.1", START_MS + at_ms)
    ]
    assert sum(at_ms >= 60_000 for at_ms in accepted) == pytest.approx(2 * 30, rel=0.1)
    addresses.change_quotas({})
    assert addresses.connected("10.0.0.1", START_MS) == 0


def test_long_client_ids_do_not_fill_the_memory() -> None:
    measured = Measurements(PRODUCER_BYTE_RATE, WINDOWS.window_ms)
    measured.change_quotas({((CLIENT_ID, None),): {PRODUCER_BYTE_RATE.name: 1000.0}})
    buckets = {id(measured.find("alice", "x" * 30_000 + str(each), START_MS)) for each in range(100)}
    assert len(buckets) == 1
    assert measured.find("alice", "short", START_MS) is not measured.find("alice", "x" * 30_000, START_MS)
    assert sum(len(client_id) for _, client_id in measured._found) < 1_000
