"""Gives a client's constructor the parameters of its options class, so that they are declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from ottla.common.config.options import Options

P = ParamSpec("P")
Self = TypeVar("Self")
Given = TypeVar("Given", bound=Options)


def accepts(
    options: Callable[P, Given],
) -> Callable[[Callable[[Self, Given], None]], Callable[Concatenate[Self, P], None]]:
    """Let `__init__`, which takes the read options, be called with the options themselves.

    To type checkers, `help()` and editors the constructor has every option as a parameter; dotted names
    work too, as `Client(**{"bootstrap.servers": ...})`.
    """
    read = cast("type[Given]", options).of

    def decorate(init: Callable[[Self, Given], None]) -> Callable[Concatenate[Self, P], None]:
        @wraps(init)
        def __init__(self: Self, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            init(self, read(*args, **kwargs))

        itself = next(iter(inspect.signature(init).parameters.values()))
        parameters = [itself, *inspect.signature(options).parameters.values()]
        cast("Any", __init__).__signature__ = inspect.Signature(parameters)
        return cast("Callable[Concatenate[Self, P], None]", __init__)

    return decorate
