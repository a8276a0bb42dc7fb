"""The lines of a broker's log file, whatever its encoding and layout: the time of each, and its message.

Encodings: UTF-8 and UTF-16, plain or gzipped. Layouts: Kafka's own (`[%d] %p %m (%c)`), any other whose lines hold a date
and the message, as log4j's `%d %p %c{1}:%L - %m`, and a JSON object a line, as log4j's JsonLayout, logstash and Docker write.
"""

from __future__ import annotations

import datetime
import gzip
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from coterie.text.files import text_encoding

KAFKAS, PLAIN, JSON = "Kafka's layout", "another layout", "JSON"
_TIME = re.compile(
    r"(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[ T](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
    r"(?: ?(?P<zone>Z|[+-]\d\d:?\d\d)\b)?"
)
# log4j's %d{DATE}
_NAMED_MONTH = re.compile(
    r"(?P<day>\d\d?) (?P<month>[A-Z][a-z]{2}) (?P<year>\d{4}) (?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?(?P<zone>)"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_OF_KAFKA = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] [A-Z]+ ")
_MESSAGES = ("message", "msg", "log", "MESSAGE")
_TIMES = ("@timestamp", "timestamp", "time", "ts", "date", "timeMillis")


class LoggedLine(NamedTuple):
    """A line: ``form`` its layout, ``time_ms`` since 1970, None where it has none; ``message`` with what stands around it."""

    form: str
    time_ms: int | None
    message: str


def logged_lines(path: Path, containing: str) -> Iterator[LoggedLine]:
    """Every line of a file. What lies in a line without ``containing`` is not read: its time is None. Raises OSError."""
    with open(path, "rb") as raw:
        is_zipped = raw.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if is_zipped else open(path, "rb") as data:
        encoding = text_encoding(data.read(64))
        data.seek(0)
        for line in io.TextIOWrapper(data, encoding, errors="replace"):
            yield logged_line(line, containing)


def logged_line(line: str, containing: str) -> LoggedLine:
    """One line; without ``containing`` it is not read, as by `logged_lines`."""
    if containing not in line:
        return LoggedLine(_form(line), None, "")
    return _of_json(line) if line.lstrip().startswith("{") else LoggedLine(_form(line), time_of(line), line.rstrip())


def _form(line: str) -> str:
    if _OF_KAFKA.match(line):
        return KAFKAS
    return JSON if line.lstrip().startswith("{") else PLAIN


def _of_json(line: str) -> LoggedLine:
    try:
        fields: Any = json.loads(line)
    except (ValueError, RecursionError):
        return LoggedLine(PLAIN, time_of(line), line.rstrip())
    message = next((fields[name] for name in _MESSAGES if isinstance(fields.get(name), str)), "").rstrip()
    time_ms = time_of(message)  # Docker's time is that of the reading
    if time_ms is None:
        time_ms = _time_of_field(next((fields[name] for name in _TIMES if name in fields), fields.get("instant")))
    return LoggedLine(JSON, time_ms, message)


def _time_of_field(value: Any) -> int | None:
    if isinstance(value, dict):  # log4j 2: epochSecond, nanoOfSecond
        seconds, nanoseconds = value.get("epochSecond"), value.get("nanoOfSecond", 0)
        if isinstance(seconds, int) and isinstance(nanoseconds, int):
            return seconds * 1000 + nanoseconds // 1_000_000
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value if value > 1e11 else value * 1000)  # in ms, or in seconds
    return time_of(value) if isinstance(value, str) else None


def time_of(text: str) -> int | None:
    """The first date and time in a text, in ms since 1970; None for none. One without a zone is taken for UTC (set TZ=UTC on
    the broker, or know the shift)."""
    match = _TIME.search(text) or _NAMED_MONTH.search(text)
    if match is None:
        return None
    month, zone = match["month"], match["zone"] or "Z"
    number = f"{_MONTHS.index(month) + 1:02}" if month in _MONTHS else month
    try:
        at = datetime.datetime.fromisoformat(f"{match['year']}-{number}-{match['day']:0>2}T{match['clock']}{zone}")
    except ValueError:
        return None
    return int(at.timestamp()) * 1000 + int(f"{match['fraction'] or '':0<3}"[:3])
