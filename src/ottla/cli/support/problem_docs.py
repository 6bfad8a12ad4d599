"""docs/problems.md, and the text of `ottla explain`, from the declaration of the kinds."""

from __future__ import annotations

from ottla.cli.support.problem_kinds import KINDS


def problems_page() -> str:
    """Return docs/problems.md."""
    lines = [
        "# When something goes wrong",
        "",
        "<!-- Made from src/ottla/cli/support/problem_kinds.py by: make docs -->",
        "",
        "An error of `ottla` says what happened and what to type, and its last line names a code. The codes "
        "stay what they are from version to version. `ottla explain CODE` shows the same text in the "
        "terminal; error codes of the protocol itself are in [errors](errors.md).",
        "",
        "| code | what |",
        "|---|---|",
        *(f"| [{each.code}](#{each.code.lower()}) | {each.title} |" for each in KINDS.values()),
    ]
    for each in KINDS.values():
        lines += ["", f"## {each.code}", "", f"**{each.title}.** {each.why}", ""]
        lines += [f"- {step}" for step in each.fix]
    return "\n".join(lines) + "\n"
