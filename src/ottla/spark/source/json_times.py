"""Parse dates and times in JSON, in the forms that Spark's casts accept.

2020-01-02T10:11:12.123456+02:00    with one or two digits where two are usual, from the right shortened
2020-01-02 10:11:12 Europe/Berlin   a zone by name; without a zone, that of the session
1577959872                          seconds since 1970, for a timestamp
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Zone = tzinfo | None
"""A time zone; None is that of this machine."""

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
MAX_OFFSET_S = 18 * 3600
MAX_SECONDS = (1 << 63) // 1_000_000

_DATE = r"\s*\+?0*(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})%s)?)?\s*"
_CLOCK = (
    r"(?:[T ](?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?)?)?"
    r"(?P<zone>\s*[A-Za-z+-].*?)?)?"
)
_DAY = re.compile(_DATE % r"(?:[T ].*)?", re.DOTALL)
_MOMENT = re.compile(_DATE % _CLOCK, re.DOTALL)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<rest>\d{1,2}(?::\d{1,2}){0,2}|\d{4}|\d{6})")

_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
}
"""The short names of zones that Java knows."""


def parse_date(value: Any) -> date:
    """Return a date; what comes after the day and a space or T is ignored."""
    match = _DAY.fullmatch(value) if type(value) is str else None
    if match is None:
        raise ValueError(f"{value!r} is not a date")
    return date(int(match["year"]), int(match["month"] or 1), int(match["day"] or 1))


def parse_timestamp(value: Any, zone: Zone) -> int:
    """Return microseconds since 1970; `zone` is for texts that name none."""
    if type(value) is int:
        if not -MAX_SECONDS <= value < MAX_SECONDS:
            raise ValueError(f"{value} seconds are out of range")
        return value * 1_000_000
    local, named = _moment(value)
    if named is not None:
        zone = find_zone(named)
    offset = local.replace(tzinfo=zone).utcoffset() if zone is not None else local.astimezone().utcoffset()
    return (local - EPOCH - (offset or timedelta())) // MICROSECOND


def parse_local_timestamp(value: Any) -> int:
    """Return the microseconds of a date and time without a zone."""
    local, named = _moment(value)
    if named is not None:
        raise ValueError(f"{value!r} has a time zone")
    return (local - EPOCH) // MICROSECOND


def _moment(value: Any) -> tuple[datetime, str | None]:
    match = _MOMENT.fullmatch(value) if type(value) is str else None
    if match is None:
        raise ValueError(f"{value!r} is not a timestamp")
    year, month, day = int(match["year"]), int(match["month"] or 1), int(match["day"] or 1)
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    micros = int(((match["fraction"] or "") + "000000")[:6])
    named = match["zone"]
    return datetime(year, month, day, hour, minute, second, micros), named.strip() if named else None


@lru_cache(256)
def find_zone(name: str) -> tzinfo:
    """Return the zone of a name or an offset; raise ValueError if there is none."""
    name = _SHORT.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if (match := _OFFSET.fullmatch(name)) is not None:
        rest = match["rest"]
        parts = rest.split(":") if ":" in rest or len(rest) < 3 else re.findall("..", rest)
        hours, minutes, seconds = (*map(int, parts), 0, 0)[:3]
        total = hours * 3600 + minutes * 60 + seconds
        if total > MAX_OFFSET_S or minutes > 59 or seconds > 59:
            raise ValueError(f"{name} is not an offset of at most 18 hours")
        return timezone(timedelta(seconds=total if match["sign"] == "+" else -total))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}") from None
