"""Processes that must not outlive the one that started them."""

from __future__ import annotations

import ctypes
import signal

PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Have the system end this process (SIGTERM) when the thread that started it ends, even by kill -9.

    For `preexec_fn` of a process that is started by the main thread.
    """
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
