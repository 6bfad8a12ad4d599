"""Classify why a broker, or a ZooKeeper, did not start."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from ottla.cli.support.problem_kinds import (
    BAD_DATA,
    DISK_FULL,
    NO_JAVA,
    NO_PACKAGE,
    NO_ZOOKEEPER,
    PORT_IN_USE,
    Kind,
)
from ottla.cli.support.problems import Problem
from ottla.common.java import JavaNotFound

_LISTENING = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def could_not_start(error: Exception) -> Problem:
    """Return the message for a failed start, with its error code."""
    what, _, hint = str(error).partition(". ")
    return Problem(what, *filter(None, (hint,)), kind=_kind_of(error))


def java_missing(error: BaseException) -> Kind | None:
    """Return the kind of problem if there is no Java; else None."""
    return NO_JAVA if any(isinstance(each, JavaNotFound) for each in _causes(error)) else None


def _kind_of(error: Exception) -> Kind | None:
    names = [type(each).__name__ for each in _causes(error)]
    codes = [each.errno for each in _causes(error) if isinstance(each, OSError)]
    if any(code in _FULL for code in codes):
        return DISK_FULL
    if any(code in _LISTENING for code in codes) or "cannot listen on" in str(error):
        return PORT_IN_USE
    if java_missing(error):
        return NO_JAVA
    if "pip install" in str(error):
        return NO_PACKAGE
    if "StoreUnavailable" in names or "ZooKeeperFailed" in names:
        return NO_ZOOKEEPER
    return BAD_DATA if "directory" in str(error) else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, up to a limit."""
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__
