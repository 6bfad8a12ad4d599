"""Pages from templates: everything that is put into one is escaped."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ottla import __version__

TEMPLATES = Path(__file__).parent / "templates"
_CODE = re.compile(r"`([^`<>]+)`")
_JSON_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*+"?)(?P<colon>\s*+:)?|(?P<number>-?\d[\d.eE+-]*+)|(?P<word>\b(?:true|false|null)\b)"""
)
PART_CHARACTERS = 32 * 1024
STATIC = Path(__file__).parent / "static"


@lru_cache(1)
def environment() -> Environment:
    """Return the templates."""
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters.update(
        number=number,
        size=size,
        duration=duration,
        moment=moment,
        segment=lambda value: quote(str(value), safe=""),
        count=count,
        percent=lambda value: "–" if value is None else f"{value:.0%}",
        rate=rate,
        prose=prose,
        parts=parts,
        visible=visible,
        highlighted=highlighted,
        tojson_text=lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    )
    found.globals.update(version=__version__)
    return found


def render(template: str, /, **values: Any) -> str:
    """Return a template filled with values."""
    return environment().get_template(template).render(**values)


def number(value: float | None) -> str:
    """Return a number with separators; a dash for none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.1f}"


def rate(value: float | None) -> str:
    """Return a rate of records: 0, 0.4, 12, 3.2k, 1.1M."""
    if value is None:
        return "–"
    for unit, factor in (("M", 1e6), ("k", 1e3)):
        if value >= factor * 10:
            return f"{value / factor:.0f}{unit}"
        if value >= factor:
            return f"{value / factor:.1f}{unit}"
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def size(value: float | None) -> str:
    """Return a size in bytes: 17 B, 3.2 KiB, 1.1 GiB."""
    if value is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def duration(seconds: float | None) -> str:
    """Return `0 s`, `3.2 s`, `2 min 5 s`, `3 h 20 min`, `2 d 4 h`."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def moment(value_ms: float | None) -> Markup:
    """Return a time as an element that the browser shows in its own time zone."""
    if value_ms is None or value_ms < 0:
        return Markup("–")
    try:
        when = datetime.fromtimestamp(value_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return Markup(escape(f"{value_ms:.0f} ms"))
    iso = when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup(f'<time datetime="{iso}">{iso[:10]} {iso[11:23]}</time>')


def count(value: int, thing: str, things: str = "") -> str:
    """Return `1 topic`, `2 topics`."""
    return f"{value:,} {thing if value == 1 else things or thing + 's'}"


def parts(text: str) -> list[str]:
    """Return a long text in parts, at ends of lines if there are any: browsers lay out only those in view."""
    if len(text) <= PART_CHARACTERS:
        return [text]
    found, begin = [], 0
    while begin < len(text):
        end = begin + PART_CHARACTERS
        line_end = text.rfind("\n", begin, end)
        end = end if line_end < 0 else line_end + 1
        found.append(text[begin:end])
        begin = end
    return found


def visible(text: str) -> str:
    """Return a name whose invisible characters are written out: some turn what follows them around."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)


def highlighted(text: str, kind: str) -> Markup:
    """Return JSON, or the beginning of it, with its tokens marked; other texts are only escaped."""
    if not kind.endswith(("json", "schema", "avro")):
        return escape(text)
    parts, at = [], 0
    for found in _JSON_TOKEN.finditer(text):
        parts.append(escape(text[at : found.start()]))
        at = found.end()
        if found["string"] is None:
            style = "j-number" if found["number"] is not None else "j-word"
            parts.append(Markup(f'<span class="{style}">') + found[0] + Markup("</span>"))
            continue
        style = "j-key" if found["colon"] else "j-text"
        parts.append(Markup(f'<span class="{style}">') + found["string"] + Markup("</span>"))
        parts.append(escape(found["colon"] or ""))
    parts.append(escape(text[at:]))
    return Markup("").join(parts)


def prose(text: str) -> Markup:
    """Return a text whose words in backticks are marked as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))
