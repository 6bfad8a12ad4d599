"""The reference page of error codes, generated from their declarations: docs/problems.md."""

from __future__ import annotations

from ottla.cli.support.problem_kinds import KINDS


def problems_page() -> str:
    """Return docs/problems.md."""
    lines = [
        "# When something goes wrong",
        "",
        "<!-- Made from src/ottla/cli/support/problem_kinds.py by: make docs -->",
        "",
        "An error of `ottla` says what happened and what to type next; its last line names a code. "
        "Codes never "
        "change their meaning. `ottla explain CODE` prints the same text in the terminal. The error "
        "codes of the "
        "Kafka protocol are in [errors](errors.md).",
        "",
        "| code | what |",
        "|---|---|",
        *(f"| [{each.code}](#{each.code.lower()}) | {each.title} |" for each in KINDS.values()),
    ]
    for each in KINDS.values():
        lines += ["", f"## {each.code}", "", f"**{each.title}.** {each.why}", ""]
        lines += [f"- {step}" for step in each.fix]
    return "\n".join(lines) + "\n"
