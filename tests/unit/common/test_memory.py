"""Large buffers reuse the same memory, if the C library is configured to keep it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from ottla.client.producer.core import keep_for_reuse

if sys.argv[1] == "kept":
    keep_for_reuse(5 * 1024 * 1024)

def use():
    return [bytearray(b"x" * 250_000) for _ in range(4)]

use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    """Return how many pages a process had to fault in for the same buffers, 20 times."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=60, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc learns by example")
def test_buffers_that_come_and_go_get_their_old_pages_again() -> None:
    assert faults("kept") * 4 < faults("given back")
