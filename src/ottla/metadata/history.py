"""The controller terms of a metadata log, which tell two histories apart.

Versions only count entries: a log that was restored from an older snapshot and then changed again reaches
the same versions with other entries. So the store notes where each controller term began, with an id that is
never used again. A restored log lacks the later terms, and gets others. A broker keeps the term of the last
version that it applied (local_copy.py), and follows only a log that has this version in the same term.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAX_TERMS = 200
"""How many terms are kept; a broker that was away for longer is compared by its version alone."""


class Term(NamedTuple):
    """The entries from `start_version` on, until the next term, were written by one controller."""

    start_version: int
    term_id: str


Terms = tuple[Term, ...]


def with_term(terms: Terms, start_version: int, term_id: str) -> Terms:
    """Return the terms after a controller has written its first entry."""
    return (*terms, Term(start_version, term_id))[-MAX_TERMS:]


def term_at(terms: Sequence[Term], version: int) -> Term | None:
    """Return the term in which a version was written; None if it is not known."""
    return next((each for each in reversed(terms) if each.start_version <= version), None)


def is_other_history(known: Term | None, terms: Sequence[Term], version: int) -> bool:
    """Return whether a log with these terms has another entry `version` than the one of the term `known`."""
    found = term_at(terms, version)
    return known is not None and found is not None and known != found
