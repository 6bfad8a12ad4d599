"""Names the subject that a record's schema belongs to."""

from __future__ import annotations

from collections.abc import Callable

from ottla.registry.serdes.errors import SerdeError

SubjectName = Callable[[str, str, str | None], str]
"""Takes the topic, `key` or `value`, and the name of the record; returns the subject."""


def topic_name(topic: str, field: str, record: str | None) -> str:
    """Return `TOPIC-key` or `TOPIC-value`: all records of a topic share one line of schemas."""
    return f"{topic}-{field}"


def record_name(topic: str, field: str, record: str | None) -> str:
    """Return the full name of the record: it has the same schemas in every topic."""
    return _named(record)


def topic_record_name(topic: str, field: str, record: str | None) -> str:
    """Return `TOPIC-RECORD`: several kinds of records in one topic, each with its own schemas."""
    return f"{topic}-{_named(record)}"


def _named(record: str | None) -> str:
    if record is None:
        raise SerdeError(
            "the subject is named after the record, and the schema has no name: give the schema a name "
            "(Avro, Protobuf) or a title (JSON Schema), or use topic_name"
        )
    return record


STRATEGIES: dict[str, SubjectName] = {
    "topic": topic_name,
    "record": record_name,
    "topic-record": topic_record_name,
}


def strategy_of(name: str | SubjectName) -> SubjectName:
    """Return a strategy by its name; a function is one already."""
    if not isinstance(name, str):
        return name
    if name not in STRATEGIES:
        raise ValueError(f"subject_name is a function or one of {', '.join(STRATEGIES)}, not {name!r}")
    return STRATEGIES[name]
