"""The types of Kafka's ConfigDef: how the value of a setting is read from text or from a Python value, and written as text."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
_BLANKS = "".join(map(chr, range(ord(" ") + 1)))  # what java.lang.String.trim removes
# java.lang.Double.parseDouble without hexadecimal numbers; a letter for the type may follow.
_NUMBER = r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?"


class Kind(IntEnum):
    """The types of Kafka's ConfigDef, numbered as DescribeConfigs numbers them (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UnfitValue(ValueError):
    """A value that a setting cannot have; the text completes "NAME ..."."""


@dataclass(frozen=True, slots=True)
class ValueType(Generic[T_co]):
    """A type of values. ``text`` completes "NAME must be ..."; ``read`` raises ValueError or TypeError for other values, or
    UnfitValue with a sentence of its own."""

    kind: Kind
    text: str
    read: Callable[[object], T_co]

    def parse(self, value: object) -> T_co:
        """The value that a text writes, or that a Python value is. Raises UnfitValue."""
        try:
            return self.read(value)
        except UnfitValue:
            raise
        except (ValueError, TypeError, OverflowError):
            shown = f"a value of type {type(value).__name__}" if self.kind == Kind.PASSWORD else repr(value)
            raise UnfitValue(f"must be {self.text}, not {shown}") from None


def trimmed(text: str) -> str:
    """The text without blanks around it, as java.lang.String.trim."""
    return text.strip(_BLANKS)


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and (text := trimmed(value).upper()) in ("TRUE", "FALSE"):
        return text == "TRUE"
    raise ValueError


def _integer(bits: int) -> Callable[[object], int]:
    limit = 2 ** (bits - 1)

    def read(value: object) -> int:
        if isinstance(value, str):
            text = trimmed(value)
            # java.lang.Integer.parseInt: decimal digits of any script, but none beyond the basic plane.
            digits = text[1:] if text.startswith(("+", "-")) else text
            if not digits.isdecimal() or max(digits) > "\uffff":
                raise ValueError
            number = int(text)
        elif isinstance(value, bool):
            raise TypeError
        else:
            number = operator.index(value)  # type: ignore[arg-type]  # a TypeError is what is wanted of others
        if not -limit <= number < limit:
            raise ValueError
        return number

    return read


def _double(value: object) -> float:
    if isinstance(value, str):
        match = re.fullmatch(_NUMBER, trimmed(value))
        if match is None:
            raise ValueError
        return float(match[1])
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def text_of(value: object) -> str:
    """Text as it is, a number such as the 1 of acks, or a path. Raises TypeError."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    path = getattr(value, "__fspath__", None)
    text = path() if callable(path) else None
    if not isinstance(text, str):
        raise TypeError
    return text


def _string(value: object) -> str:
    return trimmed(text_of(value))


def _list(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        text = trimmed(value)
        return tuple(trimmed(item) for item in text.split(",")) if text else ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise TypeError
    return tuple(value)


BOOLEAN = ValueType(Kind.BOOLEAN, "true or false", _boolean)
STRING = ValueType(Kind.STRING, "text", _string)
SHORT = ValueType(Kind.SHORT, "a whole number of 16 bits", _integer(16))
INT = ValueType(Kind.INT, "a whole number of 32 bits", _integer(32))
LONG = ValueType(Kind.LONG, "a whole number of 64 bits", _integer(64))
DOUBLE = ValueType(Kind.DOUBLE, "a number", _double)
LIST = ValueType(Kind.LIST, "text with commas, or a list of texts", _list)
CLASS = ValueType(Kind.CLASS, "the name of a class", _string)
PASSWORD = ValueType(Kind.PASSWORD, "text", _string)

VALUE_TYPES: dict[Kind, ValueType[object]] = {
    t.kind: t for t in (BOOLEAN, STRING, SHORT, INT, LONG, DOUBLE, LIST, CLASS, PASSWORD)
}


def format_value(value: object) -> str | None:
    """The text of a value as DescribeConfigs shows it (ConfigDef.convertToString); None for a setting without value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return _format_double(value) if isinstance(value, float) else str(value)


def _format_double(value: float) -> str:
    """As java.lang.Double.toString: scientific from 10 million up and below a thousandth."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal  # two milliseconds of a broker's start

    sign, digits, power = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(power, int)
    first, rest = str(digits[0]), "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{first}.{rest}E{power + len(digits) - 1}"
