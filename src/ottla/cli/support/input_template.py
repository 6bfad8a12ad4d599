r"""Templates for reading: what `ottla consume -f TEMPLATE` writes, `ottla produce -f TEMPLATE` reads.

    %k key   %v value (also %s)   %h headers, name=value,name=value   %p partition   %T timestamp in ms
    %K %V (also %S) sizes of key and value as numbers   %R size of the value as 4 bytes, big endian
    %t %o topic and offset, which are skipped   %% a percent sign   \n \r \t \\ \0 \xHH as in C

A field ends where the text after it begins; key and value may have their size before them instead, and then
may contain anything. A size of -1 is null.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.cli.support.records import NewRecord, template_pieces

_SIZE_BYTES = 4
_FIELDS = "kvsKVSRpTtoh"
_SIZED = {"K": "k", "V": "v", "S": "v", "R": "v"}
_MISSING = -1


class Incomplete(Exception):
    """The input ends in the middle of a record."""


@dataclass
class _Found:
    """What was read of a record."""

    fields: dict[str, bytes | None] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)


class InputTemplate:
    """Reads records by a template; ValueError says what is wrong with it."""

    def __init__(self, text: str) -> None:
        self._pieces = template_pieces(text)
        if not any(each in ("k", "v", "s") for each in self._pieces):
            raise ValueError(f"{text!r} has neither a key (%k) nor a value (%v)")
        sized: set[str] = set()
        for at, piece in enumerate(self._pieces):
            if isinstance(piece, bytes):
                continue
            if piece not in _FIELDS:
                raise ValueError(f"%{piece} cannot be read; there are %{' %'.join(_FIELDS)} and %%")
            if piece in _SIZED:
                sized.add(_SIZED[piece])
            name = "v" if piece == "s" else piece
            if piece == "R" or name in sized:
                continue
            if at + 1 == len(self._pieces) or not isinstance(self._pieces[at + 1], bytes):
                raise ValueError(f"nothing says where %{piece} ends: put text after it, or a size before it")

    @property
    def separators(self) -> tuple[bytes | None, bytes] | None:
        """What is between key and value, and after the value, if the template is only that."""
        match self._pieces:
            case [("v" | "s"), bytes() as end]:
                return None, end
            case ["k", bytes() as between, ("v" | "s"), bytes() as end]:
                return between, end
        return None

    def cut(self, data: bytes) -> tuple[list[bytes], int]:
        """Divide bytes into records; return them and how many bytes they are."""
        found: list[bytes] = []
        at = 0
        while at < len(data):
            try:
                _, end = self._read(data, at)
            except Incomplete:
                break
            found.append(data[at:end])
            at = end
        return found, at

    def record(self, data: bytes) -> NewRecord:
        """Return the record that these bytes are."""
        end = self._pieces[-1]
        if isinstance(end, bytes) and not data.endswith(end):
            data += end  # the last record may lack it
        try:
            found, _ = self._read(data, 0)
        except Incomplete:
            raise ValueError("the input ends in the middle of a record") from None
        fields = found.fields
        headers = fields.get("h")
        return NewRecord(
            fields.get("k"),
            fields.get("v"),
            _headers(headers) if headers else (),
            _number(fields["T"]) if fields.get("T") else None,
            _number(fields["p"]) if fields.get("p") else None,
        )

    def _read(self, data: bytes, at: int) -> tuple[_Found, int]:
        found = _Found()
        for index, piece in enumerate(self._pieces):
            if isinstance(piece, bytes):
                if data[at : at + len(piece)] != piece:
                    if len(data) - at < len(piece):
                        raise Incomplete
                    raise ValueError(f"{piece!r} is not there after {data[max(0, at - 20) : at]!r}")
                at += len(piece)
                continue
            name = "v" if piece == "s" else piece
            if piece == "R":
                size = data[at : at + _SIZE_BYTES]
                if len(size) < _SIZE_BYTES:
                    raise Incomplete
                found.sizes["v"] = int.from_bytes(size, "big", signed=True)
                at += _SIZE_BYTES
            elif name in found.sizes:
                size_bytes = found.sizes[name]
                end = at + max(0, size_bytes)
                if end > len(data):
                    raise Incomplete
                found.fields[name] = None if size_bytes == _MISSING else data[at:end]
                at = end
            else:
                after = self._pieces[index + 1]
                assert isinstance(after, bytes)
                end = data.find(after, at)
                if end < 0:
                    raise Incomplete
                text = data[at:end]
                if piece in _SIZED:
                    found.sizes[_SIZED[piece]] = _number(text)
                else:
                    found.fields[name] = text
                at = end
        return found, at


def _number(text: bytes | None) -> int:
    try:
        return int(text or b"")
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    found: list[tuple[str, bytes | None]] = []
    for each in text.split(b","):
        name, equals, value = each.partition(b"=")
        found.append((name.decode(errors="surrogateescape"), value if equals else None))
    return tuple(found)
