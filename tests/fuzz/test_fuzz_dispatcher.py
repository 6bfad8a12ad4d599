"""200,000 requests, good, bad and worse, to every API in every version. OTTLA_FUZZ_SEED makes it others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.fuzz.generator import FrameSource
from tests.fuzz.harness import TOPICS, FuzzBroker
from tests.fuzz.messages import request_head, served
from tests.fuzz.verdicts import Problem, Usage
from tests.integration.wire import batch, fetch_fields, produce_fields

from ottla.protocol.api_keys import ApiKey

pytestmark = pytest.mark.timeout(900)

SEED = os.environ.get("OTTLA_FUZZ_SEED", "1")
INPUTS = int(os.environ.get("OTTLA_FUZZ_INPUTS", "200000"))
EVERY_API = served()
EVERY_VERSION = [(key, version) for key, versions in EVERY_API for version in versions]
INPUTS_PER_API = -(-INPUTS // len(EVERY_API))
FRAMES_AT_ONCE = 50
FRAMES_BETWEEN_RESETS = 1000

FEWEST_ANSWERED = 0.1
MAX_NEW_OBJECTS = 8000
MAX_NEW_BYTES = 48 << 20
MAX_NEW_DESCRIPTORS = 8


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzBroker]:
    with FuzzBroker(tmp_path_factory.mktemp("fuzz") / "data") as started:
        yield started


def feed(fuzzed: FuzzBroker, source: FrameSource, count: int) -> None:
    """Feed so many frames, and now and then undo what they did."""
    for fed in range(0, count, FRAMES_AT_ONCE):
        if fed % FRAMES_BETWEEN_RESETS == 0:
            fuzzed.reset()
        fuzzed.feed(list(source.take(FRAMES_AT_ONCE)))


@pytest.mark.parametrize(("api_key", "versions"), EVERY_API, ids=[key.name for key, _ in EVERY_API])
def test_no_request_crashes_blocks_or_bloats_the_broker(
    fuzzed: FuzzBroker, api_key: ApiKey, versions: list[int]
) -> None:
    source = FrameSource(f"{SEED}/{api_key.name}", fuzzed.world, api_key, versions)
    answered = fuzzed.answered
    try:
        feed(fuzzed, source, INPUTS_PER_API // 2)  # fills caches, and imports what is imported on first use
        fuzzed.reset()
        before = Usage()
        feed(fuzzed, source, INPUTS_PER_API - INPUTS_PER_API // 2)
        fuzzed.reset()
    except Problem as problem:
        problem.add_note(f"OTTLA_FUZZ_SEED={SEED}")
        raise
    after = Usage()
    assert after.objects - before.objects < MAX_NEW_OBJECTS, (before, after)
    assert after.rss_bytes - before.rss_bytes < MAX_NEW_BYTES, (before, after)
    assert after.descriptors - before.descriptors < MAX_NEW_DESCRIPTORS, (before, after)
    # Otherwise nothing but the decoder has been tested.
    assert fuzzed.answered - answered > FEWEST_ANSWERED * INPUTS_PER_API


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(api=st.sampled_from(EVERY_VERSION), body=st.binary(max_size=300))
@example(api=(ApiKey.SYNC_GROUP, 0), body=b"\0\1g\0\0\0\1\0\1m\0\0\0\0")
def test_any_bytes_may_follow_a_header(fuzzed: FuzzBroker, api: tuple[ApiKey, int], body: bytes) -> None:
    key, version = api
    fuzzed.feed([request_head(key, version, 7) + body])


@settings(max_examples=300, deadline=None)
@given(frame=st.binary(max_size=40))
def test_any_bytes_may_be_a_frame(fuzzed: FuzzBroker, frame: bytes) -> None:
    fuzzed.feed([frame])


def test_after_all_that_the_broker_restarts_and_serves(fuzzed: FuzzBroker) -> None:
    random = Random(SEED)
    sources = [FrameSource(f"{SEED}/mixed/{key.name}", fuzzed.world, key, each) for key, each in EVERY_API]
    for _ in range(100):
        fuzzed.feed([frame for source in random.sample(sources, 5) for frame in source.take(10)])
    fuzzed.stop()
    fuzzed.start()
    fuzzed.complaints.check()
    assert fuzzed.ask(ApiKey.API_VERSIONS, 3, client_software_name="a", client_software_version="1").api_keys

    fuzzed.reset()
    for topic in TOPICS:
        records = batch(b"one", b"two", key=b"key", timestamp=fuzzed.broker.clock.wall_ms())
        produced = fuzzed.ask(ApiKey.PRODUCE, 9, **produce_fields(topic, records))
        (result,) = produced.responses[0].partition_responses
        assert (result.error_code, result.base_offset) == (0, 0), (topic, result)
        fetched = fuzzed.ask(ApiKey.FETCH, 12, **fetch_fields(topic, (0, 0)))
        (data,) = fetched.responses[0].partitions
        assert (data.error_code, data.high_watermark) == (0, 2)
        assert len(data.records) >= 61
    fuzzed.complaints.check()
