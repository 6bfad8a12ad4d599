"""Turn exceptions of Spark and Python into the user's line and one sentence.

Spark's messages contain a JVM stack trace, the plan, and (for Python functions) a worker's traceback as text.
A user needs the last line of that traceback which is in one of the user's files, and the message.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.common.near_names import did_you_mean
from ottla.spark.messages import conditions, sentence
from ottla.spark.pipelines.problems import PipelineProblem, Place
from ottla.spark.pipelines.records import NOT_JSON

FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
POSITION = re.compile(r"\(line (?P<line>\d+), pos \d+\)")

JVM_GONE = ("Answer from Java side is empty", "stopped SparkContext", "SparkContext was shut down")

USERS_CONDITIONS = (
    "PYTHON_EXCEPTION",
    "STREAMING_OUTPUT_MODE",
    "MALFORMED_RECORD_IN_PARSING",
    "USER_RAISED_EXCEPTION",
    "STATE_STORE_KEY_SCHEMA",
    "STATE_STORE_VALUE_SCHEMA",
    "STREAMING_STATEFUL_OPERATOR",
)
"""Error conditions that a retry does not change."""

DEAD_LETTERS = (
    "write invalid records to a dead-letter topic, and continue: dp.parse_json and dp.dead_letters",
)
HINTS = {
    "STREAMING_OUTPUT_MODE": (
        'use output_mode="update" for each change of a result, or "complete" for the whole result each time;',
        'or emit a window once, when it closes: .withWatermark("time", "10 minutes") before it',
    ),
    "MALFORMED_RECORD_IN_PARSING": DEAD_LETTERS,
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE": (
        "recompute that flow: ottla pipeline run PATH --full-refresh FLOW",
    ),
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE": (
        "recompute that flow: ottla pipeline run PATH --full-refresh FLOW",
    ),
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA": (
        "the aggregations or joins of the query differ from those in the checkpoint;",
        "recompute that flow: ottla pipeline run PATH --full-refresh FLOW",
    ),
}

NO_BROKER = "no broker at "
"""The prefix of our client's error."""
NO_BROKER_HINT = (
    "start it (ottla serve), or use another one with -b HOST:PORT; the next run resumes where this one ended"
)


@dataclass(frozen=True)
class Context:
    """Where an error is caught: the user's files, the names of the pipeline."""

    files: Sequence[Path] = ()
    names: Iterable[str] = ()

    def holds(self, file: str) -> bool:
        """Return whether `file` is the user's: one of the pipeline, or in its folder."""
        path = Path(file)
        return any(path == each or each.parent in path.parents for each in self.files) and (
            "site-packages" not in path.parts
        )


def explain_error(error: BaseException, context: Context, default: Place | None = None) -> PipelineProblem:
    """Return the PipelineProblem for an error; `default` is the flow's line."""
    if isinstance(error, PipelineProblem):
        return error
    if isinstance(error, SyntaxError) and error.filename:
        return PipelineProblem(error.msg, *_caret(error), place=Place(error.filename, error.lineno or 0))
    text = str(error)
    if is_jvm_gone(error):
        return PipelineProblem(
            "Spark's process has ended: it was killed, or ran out of memory",
            "the next run resumes where this one ended; see spark.log in the pipeline's folder",
        )
    place = place_in_text(text, context) or place_of(error, context) or default
    if not is_from_spark(error):
        return PipelineProblem(
            f"{type(error).__name__}: {text}" if text else type(error).__name__, place=place
        )
    names = conditions(text)
    if "TABLE_OR_VIEW_NOT_FOUND" in names:
        name = _parameter(error, "relationName").replace("`", "") or "?"
        return PipelineProblem(
            f"unknown table or view {name!r}: it is neither in this pipeline nor in Spark's catalog",
            *did_you_mean(name, context.names),
            place=place,
        )
    hints = [hint for key, found in HINTS.items() if any(n.startswith(key) for n in names) for hint in found]
    what = sentence(text)
    if f" is {NOT_JSON} " in what:
        hints.extend(DEAD_LETTERS)
    if what.startswith(NO_BROKER):
        hints.append(NO_BROKER_HINT)
    return PipelineProblem(what, *hints, place=place)


def is_users(error: BaseException, context: Context) -> bool:
    """Return whether the error is in the user's code, so that a retry cannot help."""
    if isinstance(error, PipelineProblem | SyntaxError):
        return True
    if not is_from_spark(error):
        return place_of(error, context) is not None
    if {"AnalysisException", "ParseException"} & {each.__name__ for each in type(error).__mro__}:
        return True
    text = str(error)
    return place_in_text(text, context) is not None or any(
        name.startswith(USERS_CONDITIONS) for name in conditions(text)
    )


def is_jvm_gone(error: BaseException) -> bool:
    """Return whether the JVM has ended."""
    kinds = {each.__name__ for each in type(error).__mro__}
    if "Py4JNetworkError" in kinds or isinstance(error, ConnectionRefusedError | ConnectionResetError):
        return True
    return is_from_spark(error) and any(words in str(error) for words in JVM_GONE)


def is_from_spark(error: BaseException) -> bool:
    """Return whether it is one of PySpark's or Py4J's exceptions."""
    return any(each.__module__.startswith(("pyspark.", "py4j.")) for each in type(error).__mro__)


def place_of(error: BaseException, context: Context) -> Place | None:
    """Return the innermost line of the user's files in the traceback of an error."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if context.holds(frame.filename):
            return Place(frame.filename, frame.lineno or 0)
    return None


def place_in_text(text: str, context: Context) -> Place | None:
    """Return the innermost line of the user's files in the tracebacks that a message quotes."""
    found = [match for match in FRAME.finditer(text) if context.holds(match["file"])]
    return Place(found[-1]["file"], int(found[-1]["line"])) if found else None


def place_in_sql(error: BaseException, start: Place, query: str) -> Place:
    """Return the line of a SQL file that an error is about; `start` is where the query begins."""
    if match := POSITION.search(str(error)):
        return Place(start.file, start.line + int(match["line"]) - 1)
    try:
        contexts = error.getQueryContext()  # type: ignore[attr-defined]
        offset = contexts[0].startIndex() if contexts else 0
    except Exception:  # not every exception has a context, and some versions raise
        offset = 0
    return Place(start.file, start.line + query.count("\n", 0, offset))


def _parameter(error: BaseException, name: str) -> str:
    try:
        return str(error.getMessageParameters().get(name, ""))  # type: ignore[attr-defined]
    except Exception:  # an exception of another kind, or without parameters
        return ""


def _caret(error: SyntaxError) -> list[str]:
    """Return a line with a caret below the error (the user's line is shown above it)."""
    if not error.text or not error.offset:
        return []
    indent = len(error.text) - len(error.text.lstrip())
    return [" " * max(0, error.offset - 1 - indent) + "^"]
