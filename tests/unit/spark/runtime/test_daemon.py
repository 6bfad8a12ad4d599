"""How Spark's Python workers end."""

from __future__ import annotations

import socket

import pytest

from ottla.spark.runtime.daemon import without_complaint


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_worker_whose_rows_are_not_needed_ends_quietly(error: OSError) -> None:
    def hung_up(connection: socket.socket, authenticated: bool) -> int:
        raise error

    one, other = socket.socketpair()
    with one, other:
        assert without_complaint(hung_up)(one, True) == 1
        assert without_complaint(lambda _, authenticated: int(authenticated))(one, False) == 0


def test_other_errors_of_a_worker_are_not_hidden() -> None:
    def broken(connection: socket.socket, authenticated: bool) -> int:
        raise OSError("disk")

    one, other = socket.socketpair()
    with one, other, pytest.raises(OSError, match="disk"):
        without_complaint(broken)(one, True)
