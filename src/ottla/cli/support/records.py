r"""How records are written as text, and read back.

Templates, as in kcat:

    %t topic   %p partition   %o offset   %T timestamp in ms   %h headers, name=value,name=value
    %k key     %v value (also %s)     %K %V (also %S) their sizes in bytes, -1 for null     %% a percent sign
    %R size of the value as 4 bytes, big endian     %k{hex} %v{base64} and so on: the bytes in that spelling
    \n \r \t \\ \xHH as in C; nothing is added at the end

JSON, one object per line; what `consume` writes, `produce` reads:

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1700000000000,
     "key": "k", "value": "v", "headers": [["name", "value"]]}

Values that were decoded with a schema are JSON of their own. Bytes that are UTF-8 are JSON strings, others
are {"base64": "..."}; null is null.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from operator import itemgetter
from typing import Any, NamedTuple, cast

from ottla.client.consumer import ConsumerRecord

Piece = Callable[[ConsumerRecord], bytes]
Formatter = Callable[[ConsumerRecord], bytes]

_TOKEN = re.compile(r"%(?:([kvs])\{(\w*)\}|(.?))|\\(x[0-9A-Fa-f]{2}|.?)", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|.?)", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}


class NewRecord(NamedTuple):
    """A record to be produced, as far as the input says."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int | None = None


class JsonText(bytes):
    """Bytes that are JSON: a value that was decoded with its schema."""


_REMEMBERED_PARTITIONS = 1024
_quoted = encode_basestring


def _size(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


_FIELDS: dict[str, Piece] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "K": lambda record: _size(record.key),
    "V": lambda record: _size(record.value),
    "S": lambda record: _size(record.value),
    "R": lambda record: struct.pack(">i", -1 if record.value is None else len(record.value)),
    "h": lambda record: b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers),
}


_QUICK: dict[Piece, tuple[bytes, int]] = {
    _FIELDS[name]: (b"%b" if field in ("key", "value") else b"%d", ConsumerRecord._fields.index(field))
    for name, field in (
        *(("p", "partition"), ("o", "offset"), ("T", "timestamp")),
        *(("k", "key"), ("v", "value"), ("s", "value")),
    )
}
"""How bytes.__mod__ writes a field, and the field's place in a record."""


def template(text: str) -> Template:
    """Return a function that writes a record by a template; ValueError says what is wrong with it."""
    pieces: list[bytes | Piece] = []
    at = 0
    for token in _TOKEN.finditer(text):
        pieces.append(text[at : token.start()].encode())
        pieces.append(_piece(token))
        at = token.end()
    pieces.append(text[at:].encode())
    return Template(pieces)


class Template:
    """Writes records by a template: one formatting operation each, if their fields need no conversion."""

    def __init__(self, pieces: Sequence[bytes | Piece]) -> None:
        self._pieces = [each for each in pieces if each != b""]
        self.after_value = self._after_value()
        """What follows the value of each record, if there is nothing else: such values can be joined."""
        self.row = self._quick() or self._write

    def __call__(self, record: ConsumerRecord) -> bytes:
        """Return the record as the template has it."""
        return self.row(record)

    def _write(self, record: Any) -> bytes:
        found = record if isinstance(record, ConsumerRecord) else ConsumerRecord._make(record)
        return b"".join(piece if isinstance(piece, bytes) else piece(found) for piece in self._pieces)

    def _after_value(self) -> bytes | None:
        first, *rest = self._pieces or [b""]
        if first not in (_FIELDS["v"], _FIELDS["s"]) or not all(isinstance(each, bytes) for each in rest):
            return None
        return b"".join(each for each in rest if isinstance(each, bytes))

    def _quick(self) -> Callable[[Any], bytes] | None:
        """Return a faster `_write`, if every field is one of a few."""
        layout = b""
        places: list[int] = []
        for piece in self._pieces:
            if isinstance(piece, bytes):
                layout += piece.replace(b"%", b"%%")
            elif piece in _QUICK:
                spelling, place = _QUICK[piece]
                layout += spelling
                places.append(place)
            else:
                return None
        if not places:
            return None
        if len(places) == 1:
            place = places[0]
            return lambda row: layout % (b"" if (field := row[place]) is None else field)
        fields: Callable[[Any], tuple[Any, ...]] = itemgetter(*places)

        def write(row: Any) -> bytes:
            try:
                return layout % fields(row)
            except TypeError:  # a null among them
                return layout % tuple([b"" if field is None else field for field in fields(row)])

        return write


def row_formatter(write: Formatter) -> Callable[[Any], bytes]:
    """Return a formatter of plain tuples with the fields of a ConsumerRecord."""
    if isinstance(write, Template):
        return write.row
    if write is to_json:
        return cast("Callable[[Any], bytes]", to_json)
    return lambda row: write(ConsumerRecord._make(row))


def _piece(token: re.Match[str]) -> bytes | Piece:
    spelled, spelling, field, escape = token.groups()
    if spelled is not None:
        return _spelled(spelled, spelling)
    if field == "%":
        return b"%"
    if field is not None:
        if field not in _FIELDS:
            raise ValueError(f"%{field} is not known; there are %{' %'.join(_FIELDS)} and %%")
        return _FIELDS[field]
    return _escaped(escape)


def _escaped(escape: str) -> bytes:
    if escape.startswith("x") and len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    if escape not in _ESCAPES:
        raise ValueError(f"\\{escape} is not known; there are \\n \\r \\t \\\\ and \\xHH")
    return _ESCAPES[escape]


def unescaped(text: str) -> bytes:
    """Return text with its escapes replaced; ValueError says what is wrong with it."""
    pieces: list[bytes] = []
    at = 0
    for token in _ESCAPE.finditer(text):
        pieces += (text[at : token.start()].encode(), _escaped(token[1]))
        at = token.end()
    return b"".join((*pieces, text[at:].encode()))


def template_pieces(text: str) -> list[bytes | str]:
    """Return the text and the letters of the fields of a template, in order, for reading."""
    pieces: list[bytes | str] = []

    def add(more: bytes) -> None:
        last = pieces[-1] if pieces else None
        if isinstance(last, bytes):
            pieces[-1] = last + more
        elif more:
            pieces.append(more)

    at = 0
    for token in _TOKEN.finditer(text):
        add(text[at : token.start()].encode())
        spelled, spelling, field, escape = token.groups()
        if spelled is not None:
            raise ValueError(f"%{spelled}{{{spelling}}} is for writing; %{spelled} can be read")
        if escape is not None:
            add(_escaped(escape))
        elif field == "%":
            add(b"%")
        else:
            pieces.append(field)
        at = token.end()
    add(text[at:].encode())
    return pieces


_SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "hex": lambda data: data.hex().encode(),
    "base64": base64.b64encode,
    "text": lambda data: data,
}


def _spelled(field: str, spelling: str) -> Piece:
    if spelling not in _SPELLINGS:
        raise ValueError(f"%{field}{{{spelling}}} is not known; there are {', '.join(_SPELLINGS)}")
    read, spell = _FIELDS[field], _SPELLINGS[spelling]
    return lambda record: spell(read(record))


def to_json(record: ConsumerRecord) -> bytes:
    """Return a record as one line of JSON."""
    topic, partition, offset, timestamp, _, key, value, headers, _ = record
    written = _json_headers(headers) if headers else "[]"
    line = (
        f'{_json_start(topic, partition)}{offset},"timestamp":{timestamp},'
        f'"key":{_json_of(key)},"value":{_json_of(value)},"headers":{written}}}\n'
    )
    return line.encode(errors="backslashreplace")


@lru_cache(maxsize=_REMEMBERED_PARTITIONS)
def _json_start(topic: str, partition: int) -> str:
    return f'{{"topic":{_quoted(topic)},"partition":{partition},"offset":'


def _json_headers(headers: Sequence[tuple[str, bytes | None]]) -> str:
    return f"[{','.join(f'[{_quoted(name)},{_json_of(each)}]' for name, each in headers)}]"


def _json_of(data: bytes | None) -> str:
    """Return bytes as JSON, as `bytes_as_json` does."""
    if data is None:
        return "null"
    if type(data) is bytes:
        try:
            return _quoted(data.decode())
        except UnicodeDecodeError:
            pass
    return json.dumps(bytes_as_json(data), ensure_ascii=False, separators=(",", ":"))


def bytes_as_json(data: bytes | None) -> Any:
    """Return bytes as JSON: text where they are UTF-8, else base64; what is JSON already, as that."""
    if data is None:
        return None
    if isinstance(data, JsonText):
        return json.loads(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def from_json(line: bytes, decoded: Collection[str] = ()) -> NewRecord:
    """Return the record that a line of JSON describes; ValueError says what is wrong with it.

    `decoded` names the fields, key or value, that are data rather than bytes: they stay JSON.
    """
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    headers = fields.get("headers") or []
    if not isinstance(headers, list) or not all(_is_header(each) for each in headers):
        raise ValueError('"headers" must be a list of ["name", "value"] pairs')
    key, value = (
        _to_json(fields.get(name)) if name in decoded else _to_bytes(fields.get(name), name)
        for name in ("key", "value")
    )
    return NewRecord(
        key,
        value,
        tuple((name, _to_bytes(value, f"header {name}")) for name, value in headers),
        _to_int(fields.get("timestamp"), "timestamp"),
        _to_int(fields.get("partition"), "partition"),
    )


def _is_header(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


def _to_bytes(value: Any, name: str) -> bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and value.keys() == {"base64"}:
            return base64.b64decode(value["base64"], validate=True)
    except (TypeError, UnicodeEncodeError, binascii.Error) as error:
        raise ValueError(f'"{name}" cannot be turned into bytes: {error}') from None
    raise ValueError(f'"{name}" must be text, null or {{"base64": "..."}}')


def _to_json(value: Any) -> bytes | None:
    return None if value is None else JsonText(json.dumps(value).encode())


def _to_int(value: Any, name: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise ValueError(f'"{name}" must be a whole number')
