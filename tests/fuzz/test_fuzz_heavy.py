"""The heaviest requests that get past the decoder: none of them holds up the loop for 0.2 s."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.fuzz.harness import FuzzBroker
from tests.fuzz.heavy import heavy_requests
from tests.fuzz.messages import served

from ottla.controller.machine.topics import MAX_PARTITIONS_PER_REQUEST
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import decode_request_header
from ottla.protocol.schema.messages import request_decoder

pytestmark = pytest.mark.timeout(600)

TOPIC = "fuzz-large"
PARTITIONS = 200
OLDEST_AND_NEWEST = [
    (key, version) for key, versions in served() for version in sorted({versions[0], versions[-1]})
]
NAMES = [f"{key.name}-v{version}" for key, version in OLDEST_AND_NEWEST]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzBroker]:
    with FuzzBroker(tmp_path_factory.mktemp("heavy") / "data", MAX_PARTITIONS_PER_REQUEST) as started:
        started.run(started.create_topics({TOPIC: {}}, PARTITIONS))
        yield started


@pytest.mark.parametrize(("api_key", "version"), OLDEST_AND_NEWEST, ids=NAMES)
def test_a_request_full_of_elements_does_not_hold_up_the_loop(
    fuzzed: FuzzBroker, api_key: ApiKey, version: int
) -> None:
    for title, frame in heavy_requests(fuzzed.world, TOPIC, api_key, version):
        if api_key not in (ApiKey.PRODUCE, ApiKey.FETCH):
            _, body_at = decode_request_header(frame)
            request_decoder(api_key, version, version)(frame, body_at)  # it is heavy, but not too heavy
        try:
            fuzzed.feed([frame])
        except AssertionError as problem:
            problem.add_note(title)
            raise


def test_a_thousand_topics_are_made_and_deleted_while_others_are_served(fuzzed: FuzzBroker) -> None:
    topics = [{"name": f"many-{n}", "num_partitions": 1, "replication_factor": 1} for n in range(1000)]
    made = fuzzed.ask(ApiKey.CREATE_TOPICS, 5, topics=topics, timeout=timedelta(seconds=60))
    assert {each.error_code for each in made.topics} == {0}
    deleted = fuzzed.ask(
        ApiKey.DELETE_TOPICS, 4, topic_names=[each["name"] for each in topics], timeout=timedelta(seconds=60)
    )
    assert {each.error_code for each in deleted.responses} == {0}
