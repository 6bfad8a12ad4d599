"""What somebody may have meant who gave a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST = 3


def did_you_mean(name: str, known: Iterable[str]) -> list[str]:
    """Return a hint with the known names that are near, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=MOST)
    return [f"did you mean: {', '.join(near)}?"] if near else []
