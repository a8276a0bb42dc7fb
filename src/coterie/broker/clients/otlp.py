"""Metrics in OTLP as clients push them (KIP-714): the numbers of gauges and sums, read from protobuf's wire format.

Source: opentelemetry-proto, metrics/v1/metrics.proto: MetricsData.resource_metrics (1) > scope_metrics (2) > metrics (2) >
gauge (5) or sum (7) > data_points (1). Of other kinds, which no client of Kafka pushes, and of unknown fields nothing is read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

MOST_METRICS = 2_000  # data points of one push
MOST_ATTRIBUTES = 16  # of a data point
_PATH = (1, 2, 2)  # to a metric
_NUMBERS = (5, 7)  # gauge, sum
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE, _INT64 = struct.Struct("<d"), struct.Struct("<q")


class NoMetrics(ValueError):
    """The bytes are not OTLP."""


@dataclass(frozen=True, slots=True)
class DataPoint:
    """A number that a client measured; ``attributes`` as NAME=VALUE. ``value`` is None for one that is not finite."""

    name: str
    attributes: tuple[str, ...]
    value: float | None


def pushed_metrics(data: bytes) -> list[DataPoint]:
    """The first MOST_METRICS of a push. Raises NoMetrics."""
    metrics: list[DataPoint] = []
    try:
        for metric in _at_path(data, _PATH):
            name = next((name.decode() for name in _at_path(metric, (1,))), "")
            for number, value in _fields(metric):
                if number in _NUMBERS and isinstance(value, bytes):
                    for point in _at_path(value, (1,)):
                        metrics.append(DataPoint(name, *_point(point)))
                        if len(metrics) >= MOST_METRICS:
                            return metrics
    except (UnicodeDecodeError, struct.error, IndexError) as error:
        raise NoMetrics(f"the metrics are not OTLP: {error}") from error
    return metrics


def _at_path(data: bytes, path: tuple[int, ...]) -> Iterator[bytes]:
    for number, value in _fields(data):
        if number == path[0] and isinstance(value, bytes):
            if len(path) == 1:
                yield value
            else:
                yield from _at_path(value, path[1:])


def _point(data: bytes) -> tuple[tuple[str, ...], float | None]:
    """A NumberDataPoint: as_double (4) or as_int (6), and attributes (7)."""
    result: float | None = None
    attributes: list[str] = []
    for number, value in _fields(data):
        if number == 4 and isinstance(value, int):
            result = _DOUBLE.unpack(value.to_bytes(8, "little"))[0]
        elif number == 6 and isinstance(value, int):
            result = float(_INT64.unpack(value.to_bytes(8, "little"))[0])
        elif number == 7 and isinstance(value, bytes) and len(attributes) < MOST_ATTRIBUTES:
            attributes.append(_attribute(value))
    return tuple(attributes), result if result is not None and math.isfinite(result) else None


def _attribute(data: bytes) -> str:
    """A KeyValue: key (1), and of the value (2) a text, a truth value or a whole number."""
    key = text = ""
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            key = value.decode()
        elif number == 2 and isinstance(value, bytes):
            of_value = next(iter(_fields(value)), (0, 0))[1]
            text = of_value.decode() if isinstance(of_value, bytes) else str(of_value)
    return f"{key}={text}"


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message; a fixed number unsigned. Raises NoMetrics, IndexError."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            raise NoMetrics(f"the metrics are not OTLP: a field of kind {kind} at byte {at}")
        piece = data[at : at + size]
        at += size
        yield key >> 3, piece if kind == _BYTES else int.from_bytes(piece, "little")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise NoMetrics("the metrics are not OTLP: a number of more than 64 bits")
