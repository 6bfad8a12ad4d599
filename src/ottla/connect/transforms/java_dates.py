"""Formats of java.text.SimpleDateFormat, in UTC: the letters that configs of Connect use."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from ottla.connect.errors import DataError, WrongConfig

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_NUMBERS = {"y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "S": "milli"}


class JavaDateFormat:
    """A format: `text` writes with it, `parse` reads."""

    def __init__(self, key: str, pattern: str) -> None:
        self.pattern = pattern
        self.parts: list[tuple[str, int]] = []
        """Letter and count; a fixed text has the count 0."""
        for match in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+", pattern):
            text, letter = match.group(0), match.group(2)
            if match.group(1) is not None:
                self.parts.append((match.group(1).replace("''", "'") or "'", 0))
            elif letter is None:
                self.parts.append((text, 0))
            elif letter in "yMdHmsSEaXZzhD":
                self.parts.append((letter, len(text)))
            else:
                raise WrongConfig(key, pattern, f"Illegal pattern character '{letter}'")
        self._regex = re.compile("".join(self._part_regex(*each) for each in self.parts))

    def text(self, moment: datetime) -> str:
        """Return a moment in this format."""
        return "".join(self._text(letter, count, moment.astimezone(UTC)) for letter, count in self.parts)

    def parse(self, text: str) -> datetime:
        """Return the moment of a text; raise DataError."""
        match = self._regex.match(text)
        if match is None:
            raise DataError(
                f"Could not parse timestamp: value ({text}) does not match pattern ({self.pattern})"
            )
        found = match.groupdict()
        year = int(found.get("year") or 1970)
        if len(found.get("year") or "") == 2:
            year += 2000 if year < 70 else 1900
        hour = int(found.get("hour") or 0)
        if found.get("half"):
            hour = int(found.get("hour12") or 0) % 12 + (12 if found["half"].upper() == "PM" else 0)
        month = found.get("month") or "1"
        zone = _zone(found.get("zone"))
        try:
            return datetime(
                year,
                int(month) if month.isdigit() else 1 + [each[:3] for each in _MONTHS].index(month[:3]),
                int(found.get("day") or 1),
                hour,
                int(found.get("minute") or 0),
                int(found.get("second") or 0),
                int(found.get("milli") or 0) * 1000,
                zone,
            )
        except ValueError as error:
            raise DataError(f"Could not parse timestamp: value ({text}): {error}") from None

    @staticmethod
    def _text(letter: str, count: int, moment: datetime) -> str:
        if count == 0:
            return letter
        if letter == "y":
            return f"{moment.year % 100:02d}" if count == 2 else f"{moment.year:0{count}d}"
        if letter == "M" and count > 2:
            name = _MONTHS[moment.month - 1]
            return name if count > 3 else name[:3]
        if letter == "E":
            name = _DAYS[moment.weekday()]
            return name if count > 3 else name[:3]
        if letter == "a":
            return "AM" if moment.hour < 12 else "PM"
        if letter in "XZz":
            return {"X": "Z", "Z": "+0000", "z": "UTC"}[letter]
        number = {
            "M": moment.month,
            "d": moment.day,
            "H": moment.hour,
            "h": moment.hour % 12 or 12,
            "m": moment.minute,
            "s": moment.second,
            "S": moment.microsecond // 1000,
            "D": moment.timetuple().tm_yday,
        }[letter]
        return f"{number:0{count}d}"

    def _part_regex(self, letter: str, count: int) -> str:
        if count == 0:
            return re.escape(letter)
        if letter == "M" and count > 2:
            return r"(?P<month>[A-Z][a-z]+)"
        if letter == "E":
            return r"[A-Z][a-z]+"
        if letter == "a":
            return r"(?P<half>[AaPp][Mm])"
        if letter in "XZz":
            return r"(?P<zone>Z|[A-Z]{3,4}|[+-]\d\d:?(?:\d\d)?)"
        name = "hour12" if letter == "h" else _NUMBERS.get(letter, "other")
        digits = f"{{{count}}}" if self._is_followed_by_number(letter) or letter == "y" else "+"
        return rf"(?P<{name}>\d{digits})"

    def _is_followed_by_number(self, letter: str) -> bool:
        """Return whether digits of the next part follow without anything between."""
        letters = [each for each, _ in self.parts]
        at = letters.index(letter)
        return at + 1 < len(self.parts) and self.parts[at + 1][1] > 0 and letters[at + 1] in "yMdHmsShD"


def _zone(text: str | None) -> timezone:
    if not text or text[0] not in "+-":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[3:].replace(":", "") or 0)
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))
