"""Every input that is kept in the repository, once more."""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fuzz.corpus import FOLDER, MAX_BYTES, split
from tests.fuzz.harness import FuzzBroker
from tests.fuzz.messages import served

INPUTS = sorted(FOLDER.iterdir())


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzBroker]:
    with FuzzBroker(tmp_path_factory.mktemp("corpus") / "data") as started:
        yield started


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_what_once_did_harm_or_reached_new_code_does_no_harm(fuzzed: FuzzBroker, path: Path) -> None:
    frames = list(split(path.read_bytes()))
    if path.name.startswith("bug-"):
        fuzzed.reset()
        fuzzed.feed(frames)
        fuzzed.reset()
        gc.collect()  # an unretrieved exception is logged when it is garbage-collected
        fuzzed.complaints.check(*frames)
    fuzzed.feed(frames)


def test_the_corpus_has_a_request_of_every_api_and_version() -> None:
    frames = [frame for path in INPUTS for frame in split(path.read_bytes()) if len(frame) >= 4]
    kept = {struct.unpack_from(">hh", frame) for frame in frames}
    missing = {(int(key), version) for key, versions in served() for version in versions} - kept
    assert not missing, "run `python -m tests.fuzz.corpus`"


def test_the_corpus_stays_small() -> None:
    assert sum(path.stat().st_size for path in INPUTS) < MAX_BYTES
