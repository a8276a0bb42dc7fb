"""What one setting is: its name, its kind, its default, the values it takes, and when it may be changed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum

Value = bool | int | float | str | tuple[str, ...] | None
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


class SettingError(ValueError):
    """A setting that does not exist, or a value that it cannot have."""


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


class Update(Enum):
    """When a broker setting may be changed (KIP-226): at the start only, for one broker, or for the cluster as well."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True)
class Rule:
    """Which values of the right kind a setting takes; ``text`` completes "NAME must be ..."."""

    text: str
    holds: Callable[[Value], bool]


def at_least(minimum: float, maximum: float | None = None) -> Rule:
    """Numbers from ``minimum`` up, to ``maximum`` where there is one."""
    if maximum is None:
        return Rule(f"at least {minimum}", lambda value: isinstance(value, int | float) and value >= minimum)
    return Rule(
        f"from {minimum} to {maximum}", lambda value: isinstance(value, int | float) and minimum <= value <= maximum
    )


def one_of(*names: str) -> Rule:
    """One of these words. Of a list, each item."""
    return Rule(
        f"one of {', '.join(names)}",
        lambda value: all(item in names for item in value) if isinstance(value, tuple) else value in names,
    )


_INTEGER_BITS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_KIND_TEXT = {
    Kind.BOOLEAN: "true or false",
    Kind.SHORT: "a whole number of 16 bits",
    Kind.INT: "a whole number of 32 bits",
    Kind.LONG: "a whole number of 64 bits",
    Kind.DOUBLE: "a number",
}


def parse_value(kind: Kind, text: str) -> Value:
    """The value that ``text`` writes, read as Kafka's ConfigDef reads it. Raises ValueError."""
    trimmed = text.strip()
    if kind == Kind.BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise ValueError(text)
        return trimmed.lower() == "true"
    if kind in _INTEGER_BITS:
        if not _WHOLE_NUMBER.fullmatch(trimmed):
            raise ValueError(text)
        number, limit = int(trimmed), 2 ** (_INTEGER_BITS[kind] - 1)
        if not -limit <= number < limit:
            raise ValueError(text)
        return number
    if kind == Kind.DOUBLE:
        return float(trimmed)
    if kind == Kind.LIST:
        return tuple(item.strip() for item in trimmed.split(",")) if trimmed else ()
    return text if kind == Kind.STRING else trimmed


def format_value(value: Value) -> str | None:
    """The text of a value as DescribeConfigs shows it; None for a setting without value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        mantissa, e, exponent = repr(value).partition("e")
        return f"{mantissa}E{int(exponent)}" if e else mantissa
    return str(value)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``no_effect`` gives the reason why changing it changes nothing in coterie; empty where it does."""

    name: str
    kind: Kind
    default: Value
    rule: Rule | None = None
    documentation: str = ""
    no_effect: str = ""
    update: Update = Update.READ_ONLY

    def parse(self, text: str) -> Value:
        """The value that ``text`` writes. Raises SettingError with a sentence that says what the setting takes."""
        try:
            value = parse_value(self.kind, text)
        except ValueError:
            raise SettingError(f"{self.name} must be {_KIND_TEXT[self.kind]}, not {text!r}") from None
        if self.rule is not None and not self.rule.holds(value):
            shown = repr(text) if isinstance(value, str | tuple) else text.strip()
            raise SettingError(f"{self.name} must be {self.rule.text}, not {shown}")
        return value

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is never shown."""
        return self.kind == Kind.PASSWORD

    @property
    def full_documentation(self) -> str:
        """The documentation, with what coterie does not do."""
        if not self.no_effect:
            return self.documentation
        return f"{self.documentation} Kept and described; no effect here: {self.no_effect}.".strip()


def nearest(name: str, known: Iterable[str]) -> str:
    """A question that offers the known name closest to a misspelt one, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""
