"""How much freed memory a process keeps for its next large buffers.

glibc gives the end of its heap back to the system as soon as 128 KB of it are free, or twice the largest
block that was ever mapped by itself and freed. A program whose buffers of some 100 KB come and go together
then gets new pages from the kernel every time, and each of them has to be faulted in and cleared: for a
producer with transactions of 1 MB that was up to a quarter of its CPU time. But glibc learns by example:
once a larger block was freed, it keeps that much.
"""

from __future__ import annotations

MOST_BYTES = 16 * 1024 * 1024
"""glibc does not learn from blocks of 32 MB and more; half of that is plenty."""


def keep_for_reuse(size_bytes: int) -> None:
    """Let the C library keep about twice so many freed bytes (where it is glibc; elsewhere nothing happens).

    It costs no memory by itself: of a block of zeros that nobody looks at no page is ever made.
    """
    bytes(min(size_bytes, MOST_BYTES))
