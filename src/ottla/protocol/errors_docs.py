"""The error codes that Ottla answers with, as a page of the documentation."""

from __future__ import annotations

import inspect

from ottla.protocol.errors import ERRORS

HEAD = """# Errors

The error codes that Ottla answers with. Clients show Kafka's name; the broker's log line and, where the
response has a place for it, the error message say more. This page is made from the code (`make docs`).

| code | name | retriable | meaning |
|---:|---|---|---|
"""


def error_page() -> str:
    """Return the page as Markdown."""
    rows = []
    for code, error in sorted(ERRORS.items()):
        retriable = "yes" if code.retriable else "no"
        rows.append(f"| {int(code)} | {code.name.upper()} | {retriable} | {inspect.getdoc(error)} |")
    return HEAD + "\n".join(rows) + "\n"
