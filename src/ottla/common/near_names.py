"""Suggest the known names that are nearest to one that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_HINTS = 3


def did_you_mean(name: str, known: Iterable[str]) -> list[str]:
    """Return a hint with the known names that are near, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=MAX_HINTS)
    return [f"did you mean: {', '.join(near)}?"] if near else []


def or_nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that refuses `name`: `; did you mean X?`, or nothing."""
    nearest = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the reason to refuse `name`: `unknown WHAT`, with the known name that is nearest."""
    return f"unknown {what}{or_nearest(name, known)}"
