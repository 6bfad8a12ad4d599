"""Read the name of a record in the text of a schema, for the strategies that name subjects after records.

Only the name is needed, so nothing is parsed that names do not depend on: Avro's and JSON Schema's are fields
at the top, and Protobuf's are the messages in the order of the text. Runs in a thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[{};]|[\w.]+|[^\s\w.{};]""", re.DOTALL
)


@dataclass(slots=True)
class Messages:
    """The messages of a .proto file, or of a message in it."""

    name: str
    nested: list[Messages] = field(default_factory=list)

    def at(self, indexes: Sequence[int]) -> str | None:
        """Return the full name of the message that indexes lead to; None if they lead nowhere."""
        found, names = self, [self.name] if self.name else []
        for index in indexes:
            if not 0 <= index < len(found.nested):
                return None
            found = found.nested[index]
            names.append(found.name)
        return ".".join(names)


RecordNames = str | Messages | None


def record_names(schema_type: str, text: str) -> RecordNames:
    """Return the name of the record, or the messages of a Protobuf file; None if there is no name."""
    if schema_type == PROTOBUF:
        return _messages(text)
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(schema, dict):
        return None
    name = schema.get("title" if schema_type == JSON else "name")
    if not isinstance(name, str):
        return None
    namespace = schema.get("namespace")
    if schema_type == AVRO and "." not in name and isinstance(namespace, str) and namespace:
        return f"{namespace}.{name}"
    return name


def _messages(text: str) -> Messages:
    file = Messages("")
    blocks: list[Messages | None] = [file]
    """The blocks around the current position; None for those that hold no messages."""
    statement: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token.startswith(("//", "/*")):
            continue
        if token == "{":
            outer, found = blocks[-1], None
            words = [each for each in statement if each not in ("export", "local")]
            if outer is not None and len(words) == 2 and words[0] == "message":
                found = Messages(words[1])
                outer.nested.append(found)
            blocks.append(found)
        elif token == "}":
            if len(blocks) > 1:
                blocks.pop()
        elif token == ";":
            if len(blocks) == 1 and len(statement) == 2 and statement[0] == "package":
                file.name = statement[1]
        else:
            statement.append(token)
            continue
        statement = []
    return file
