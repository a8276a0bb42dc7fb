"""One setting: its name, type, default, the values that it takes, and the sentences for names and values that are wrong. And a
frozen dataclass as the declaration of settings: each field has the value's type, and its `Setting` in its metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from coterie.configuration.value_types import Kind, UnfitValue, ValueType

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_KEY = "setting"


class SettingError(ValueError):
    """A setting that does not exist, or a value that it cannot have."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Which values of the right type a setting takes; ``text`` completes "NAME must be ..."."""

    text: str
    holds: Callable[[object], bool]
    choices: tuple[str, ...] = ()  # all values, where they can be listed


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
        names,
    )


@dataclass(frozen=True, slots=True)
class Setting(Generic[T_co]):
    """One setting. ``documentation``: a sentence; ``no_effect``: the reason why its value changes nothing in coterie, empty
    where it does."""

    name: str
    value_type: ValueType[T_co]
    default: T_co
    rule: Rule | None = None
    documentation: str = ""
    no_effect: str = ""

    def parse(self, value: object) -> T_co:
        """The value that a text writes, or that a Python value is; None where the default is no value. Raises SettingError
        with a sentence that reports what the setting takes."""
        if value is None and self.default is None:
            return self.default
        try:
            parsed = self.value_type.parse(value)
        except UnfitValue as error:
            raise SettingError(f"{self.name} {error}") from None
        if self.rule is not None and not self.rule.holds(parsed):
            shown = value.strip() if isinstance(value, str) and isinstance(parsed, int | float) else repr(value)
            raise SettingError(f"{self.name} must be {self.rule.text}, not {shown}")
        return parsed

    @property
    def kind(self) -> Kind:
        """The type as DescribeConfigs numbers it."""
        return self.value_type.kind

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


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """A question that offers the known name closest to a misspelt one, or nothing; ``likeness`` from 0 to 1 is required."""
    import difflib  # a millisecond of a broker's start

    by_lower = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=likeness)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""


def unknown_setting(noun: str, name: str, known: Iterable[str]) -> SettingError:
    """The error for a name that is none of the known settings; ``noun``: what it was taken for, as "topic setting"."""
    return SettingError(f"there is no {noun} {name}{nearest(name, known)}")


class Declaration(Protocol):
    """Any dataclass: what the type checker sees of one."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


S = TypeVar("S", bound=Setting[Any])
D = TypeVar("D", bound=Declaration)


def declared(setting: Setting[T]) -> T:
    """A field with the setting's default. A setting without name takes the field's, in Kafka's form."""
    made: T = field(default=setting.default, repr=not setting.is_sensitive, metadata={_KEY: setting})
    return made


def _setting_name(attribute: str) -> str:
    """The setting's name, of the field's: session_timeout_ms -> session.timeout.ms."""
    return attribute.replace("_", ".")


def settings_of(declaration: type[Declaration], entry: type[S]) -> dict[str, S]:
    """The settings of a class by name, in its order; all of them are made as ``entry``."""
    table: dict[str, S] = {}
    for name, declared_field in _fields_of(declaration).items():
        setting = declared_field.metadata[_KEY]
        assert isinstance(setting, entry), name
        table[name] = replace(setting, name=name)
    return table


@cache
def _fields_of(declaration: type[Declaration]) -> dict[str, Field[Any]]:
    """The fields by the names of their settings."""
    return {f.metadata[_KEY].name or _setting_name(f.name): f for f in fields(declaration)}


def with_values(declaration: type[D], values: Mapping[str, object]) -> D:
    """The dataclass with parsed values by their settings' names; the others have their defaults."""
    make: Callable[..., D] = declaration
    declared_fields = _fields_of(declaration)
    return make(**{declared_fields[name].name: value for name, value in values.items()})


def read_settings(
    declaration: type[D], table: Mapping[str, Setting[object]], given: Mapping[str, object], noun: str
) -> D:
    """The dataclass with the given values, texts or Python values, by their names in ``table``. Raises SettingError for a name
    that is not in it, which it takes for a ``noun``, and for a value that its setting cannot have."""
    for name in given:
        if name not in table:
            raise unknown_setting(noun, name, table)
    return with_values(declaration, {name: table[name].parse(value) for name, value in given.items()})
