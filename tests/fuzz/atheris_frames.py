"""Inputs that grow by themselves: libFuzzer keeps what reaches new code, and mutates that.

    python tests/fuzz/atheris_frames.py -runs=50000 FOUND tests/fuzz/corpus

What it finds worth keeping goes to the folder FOUND; an input that does harm is written to `crash-*` in
the working directory, and the exit code is not 0. Any flag of libFuzzer can be given (-max_total_time=600).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for `from tests.fuzz... import`

with atheris.instrument_imports(include=["ottla.protocol", "ottla.api", "ottla.coordinator"]):
    from tests.fuzz import harness
    from tests.fuzz.corpus import joined, split
    from tests.fuzz.harness import FuzzBroker
    from tests.fuzz.messages import plausible_request, served
    from tests.fuzz.mutations import mutated
    from tests.fuzz.world import World

    from ottla.api.table import ROWS

    for row in ROWS:
        row.load()

APIS = served()
INPUTS_BETWEEN_RESETS = 200
SLOWED_DOWN = 10.0
"""How much slower instrumented code is allowed to be."""


def mutate(world: World, data: bytes, max_size: int, seed: int) -> bytes:
    """Return an input with one of its frames changed, by libFuzzer or by us, or with one frame more."""
    random = Random(seed)
    frames = list(split(data))
    choice = random.random()
    if not frames or choice < 0.1:
        key, versions = random.choice(APIS)
        request = plausible_request(random, world, key, random.choice(versions))
        frames.insert(random.randint(0, len(frames)), request)
    else:
        at = random.randrange(len(frames))
        frame = frames[at]
        if choice < 0.5 or not frame:
            frames[at] = atheris.Mutate(frame, max_size)
        else:
            frames[at] = mutated(random, frame, 15, frames)
    return joined(frames)[:max_size]


def main() -> None:
    """Fuzz until libFuzzer has had enough."""
    harness.MAX_BLOCKED_S *= SLOWED_DOWN
    harness.TIMEOUT_S = 0.002
    with tempfile.TemporaryDirectory() as folder, FuzzBroker(Path(folder) / "data") as broker:
        fed = 0

        def take(data: bytes) -> None:
            nonlocal fed
            fed += 1
            if fed % INPUTS_BETWEEN_RESETS == 0:
                broker.reset()
            broker.feed(list(split(data)))

        def change(data: bytes, max_size: int, seed: int) -> bytes:
            return mutate(broker.world, data, max_size, seed)

        atheris.Setup([sys.argv[0], "-max_len=4096", *sys.argv[1:]], take, custom_mutator=change)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
