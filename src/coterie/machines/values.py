"""Values: dataclasses with slots whose fields are never assigned again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Declares a value. The type checker refuses assignments to its fields, as of a frozen dataclass; at run time nothing
    does, because a frozen one of five fields takes five times as long to make, and its class six times: a broker's start
    makes two hundred of them. So only ``__init__`` is compiled; equality, hash and text are those of a dataclass."""
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # or dataclass writes the signature there, which takes as long as the rest
    made = dataclass(slots=True, repr=False, eq=False)(cls)
    fields = dataclasses.fields(made)  # type: ignore[arg-type]
    methods: dict[str, Callable[..., Any]] = {
        "__eq__": _equality(_tuple_of([f.name for f in fields if f.compare])),
        "__hash__": _hash(_tuple_of([f.name for f in fields if (f.compare if f.hash is None else f.hash)])),
        "__repr__": _text([f.name for f in fields if f.repr]),
    }
    for name, method in methods.items():
        if name not in cls.__dict__ or cls.__dict__[name] is None:
            setattr(made, name, method)
    return made


def _tuple_of(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda of: tuple(getattr(of, name) for name in names)


def _equality(compared: Callable[[object], tuple[object, ...]]) -> Callable[[object, object], bool]:
    def __eq__(self: object, other: object) -> bool:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(hashed: Callable[[object], tuple[object, ...]]) -> Callable[[object], int]:
    def __hash__(self: object) -> int:
        return hash(hashed(self))

    return __hash__


def _text(shown: list[str]) -> Callable[[object], str]:
    def __repr__(self: object) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    return __repr__
