"""The sentence in a message of Spark, which has it between codes, plans and stack traces. Pure code."""

from __future__ import annotations

import re

CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ?")
RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:Error|Exception|[A-Z]\w+)): (?P<message>.*)", re.MULTILINE)
ENDS = (" SQLSTATE:", "\n== SQL", "\n=== Streaming Query", "\n\tat ", ";\n'", "\nJVM stacktrace")

PLANNER = "PythonMicroBatchStream"
CUT_OFF = ("(no cause message)", "Broken pipe", "EOFException", "Connection reset")
PLANNER_GONE = (
    "the Python process that plans what the query reads has ended: it was killed, or the machine ran out of "
    "memory. Start the query again: it resumes from its checkpoint"
)
"""Spark itself says nothing, or `Broken pipe`."""


def conditions(text: str) -> list[str]:
    """Return the error conditions in a message of Spark, in order."""
    return [match["name"] for match in CONDITION.finditer(text)]


def sentence(text: str) -> str:
    """Return a message of Spark without stack, plan and codes."""
    inner = text.rpartition("terminated with exception: ")[2]
    if PLANNER in text and any(each in inner.partition("\n")[0] for each in CUT_OFF):
        return PLANNER_GONE
    worker = inner.partition("Traceback (most recent call last)")[2]
    if worker and (raised := _last_raised(worker)):
        return raised
    for end in ENDS:
        inner = inner.partition(end)[0]
    inner = CONDITION.sub("", inner).strip()
    lines = [line.rstrip() for line in inner.splitlines() if line.strip()]
    return "\n  ".join(lines[:6]) or "Spark gave no reason"


def _last_raised(worker_traceback: str) -> str:
    """Return `message` of the last `Type: message` line of a traceback that is quoted in a message."""
    found = list(RAISED.finditer(worker_traceback.partition(" SQLSTATE:")[0]))
    if not found:
        return ""
    kind, message = found[-1]["type"], found[-1]["message"].strip()
    # The messages of our errors are sentences; the class name adds nothing.
    return message if kind.startswith("ottla.") else f"{kind}: {message}"
