"""A frozen dataclass as the declaration of settings: each field has the value's type, and its `Setting` in its metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, field, fields, replace
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar

from coterie.configuration.setting import Setting, unknown_setting

T = TypeVar("T")
S = TypeVar("S", bound=Setting[Any])
_KEY = "setting"


class Declaration(Protocol):
    """Any dataclass: what the type checker sees of one."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


D = TypeVar("D", bound=Declaration)


def declared(setting: Setting[T]) -> T:
    """A field with the setting's default. A setting without name takes the field's, in Kafka's form."""
    made: T = field(default=setting.default, repr=not setting.is_sensitive, metadata={_KEY: setting})
    return made


def setting_name(attribute: str) -> str:
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
    return {f.metadata[_KEY].name or setting_name(f.name): f for f in fields(declaration)}


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
