"""`dataclass` as the standard library's with slots=True, for the modules that a broker or a client imports at its start.

The standard decorator compiles up to six methods for each class, which took a third of a start's CPU time. Here `__init__` is
compiled when it is first used, `dataclasses.fields` makes its fields when it is first asked for them, and the other methods are
the same functions for all classes. mypy, and mypyc in the compiled edition, take it for the standard one.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import reprlib
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

T = TypeVar("T")


def lazy_dataclass(
    *, slots: bool, frozen: bool = False, unsafe_hash: bool = False, eq: bool = True, init: bool = True
) -> Callable[[type[T]], type[T]]:
    """The decorator; ``init=False``: for a class with an `__init__` of its own, as in the compiled edition."""
    assert slots, "only classes with slots"
    same = _methods(frozen, eq, frozen or unsafe_hash)
    params = _params(frozen=frozen, eq=eq, unsafe_hash=unsafe_hash, init=init)

    def make(cls: type[T]) -> type[T]:
        own = vars(cls)
        init_at_first_use = _InitAtFirstUse()
        methods = [*same, ("__init__", init_at_first_use)] if init else same
        for name, method in methods:
            if own.get(name) is None:
                setattr(cls, name, method)
        made: type[T] = _with_slots(cls, _declare_fields(cls, params))
        init_at_first_use.owner = made
        return made

    return make


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = lazy_dataclass


@functools.cache
def _methods(frozen: bool, eq: bool, hashed: bool) -> list[tuple[str, object]]:
    """The methods that are the same functions for all classes, by their names."""
    methods: dict[str, object] = {"__repr__": _repr}
    if eq:
        methods |= {"__eq__": _eq, "__hash__": _hash if hashed else None}
    if frozen:
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
        methods |= {"__getstate__": _state, "__setstate__": _set_state}
    return list(methods.items())


@functools.cache
def _params(**options: bool) -> Any:
    """What the standard decorator was called with: it refuses an heir that changes, of a class that is frozen."""
    params = copy.copy(_LIKE.__dataclass_params__)
    for name, option in ({"repr": True} | options).items():
        setattr(params, name, option)
    return params


def _declare_fields(cls: Any, params: Any) -> tuple[str, ...]:
    """Gives the class what `dataclasses` and `match` ask for. Returns the names of the fields that its bases lack."""
    own = vars(cls)
    kinds: dict[str, object] = own.get("__annotations__", {})
    kinds = {
        name: kind for name, kind in kinds.items() if type(kind) is type or not str(kind).startswith(_CLASS_VARIABLE)
    }
    inherited: tuple[str, ...] = getattr(cls, "__match_args__", ())
    names = tuple([name for name in kinds if name not in inherited])
    cls.__dataclass_fields__ = FieldsAtFirstUse(kinds, {name: own.get(name, dataclasses.MISSING) for name in kinds})
    cls.__dataclass_params__ = params
    cls.__match_args__ = inherited + names  # type: ignore[misc]
    return names


_CLASS_VARIABLE = ("ClassVar", "typing.ClassVar")  # of the text of an annotation; mypyc's are types


def _with_slots(cls: Any, names: tuple[str, ...]) -> Any:
    """The class with slots for fields of these names. A class gets them only when it is made, so this is another one; mypyc's
    native classes have slots of their own."""
    if "__mypyc_attrs__" in vars(cls):
        return cls
    left_out = {*cls.__match_args__, "__dict__", "__weakref__"}
    body = {name: part for name, part in vars(cls).items() if name not in left_out}
    made = type(cls)(cls.__name__, cls.__bases__, body | {"__slots__": names})
    made.__qualname__ = cls.__qualname__
    return made


class FieldsAtFirstUse:
    """`__dataclass_fields__` of a class: its bases' and its own, of which ``kinds`` has the types and ``declared`` the
    defaults, or what `dataclasses.field` returned. The standard decorator makes the same in six times as long, for it searches
    the text of each type."""

    def __init__(self, kinds: Mapping[str, object], declared: Mapping[str, Any]) -> None:
        self._kinds, self._declared = kinds, declared

    def __get__(self, instance: object, cls: Any) -> dict[str, dataclasses.Field[Any]]:
        owner: Any = next((c for c in cls.__mro__ if vars(c).get("__dataclass_fields__") is self), None)
        if owner is not None:  # else another thread has come first
            fields: dict[str, dataclasses.Field[Any]] = {}
            for base in reversed(owner.__mro__[1:]):
                fields |= getattr(base, "__dataclass_fields__", {})
            owner.__dataclass_fields__ = fields | {name: self._field(name) for name in self._kinds}
        return cls.__dataclass_fields__  # type: ignore[no-any-return]

    def _field(self, name: str) -> Any:
        made = self._declared[name]
        if not isinstance(made, dataclasses.Field):
            made = dataclasses.field(default=made)
        made.name, made.type, made._field_type = name, self._kinds[name], _FIELD_TYPE
        if made.kw_only is dataclasses.MISSING:
            made.kw_only = False
        assert type(made.default).__hash__ is not None, f"{name} needs a default_factory"
        return made


# With a docstring, or the standard decorator would make one: of a signature that it parses with `tokenize`, 2 ms.
_LIKE: Any = dataclasses.make_dataclass(
    "Like", ["field"], namespace={"__doc__": "Like."}, init=False, repr=False, eq=False
)
_FIELD_TYPE = _LIKE.__dataclass_fields__["field"]._field_type


class _InitAtFirstUse:
    """An `__init__` that is made when it is first looked up: for a construction, a signature or `help`."""

    owner: Any

    def __get__(self, instance: object, cls: Any) -> Any:
        owner = self.owner
        if owner.__dict__["__init__"] is self:  # else another thread has come first
            made = uncompiled_constructor(owner) if len(owner.__match_args__) >= MANY_FIELDS else constructor(owner)
            made.__annotations__ = {f.name: f.type for f in dataclasses.fields(owner)} | {"return": None}
            owner.__init__ = made
        return owner.__init__ if instance is None else owner.__init__.__get__(instance)


# The settings of a broker, made a few times: to compile their constructor takes as long as 100 constructions.
MANY_FIELDS = 40
_EMPTY: dict[object, str] = {list: "[]", dict: "{}"}  # a display takes half the time of a call


def constructor(cls: Any) -> Callable[..., None]:
    """The `__init__` that the standard decorator would compile."""
    is_frozen = cls.__setattr__ is _refuse_set
    scope: dict[str, Any] = {"LEFT_OUT": object()}
    parameters, body = ["self"], list[str]()
    for f in dataclasses.fields(cls):
        assert (f.init, f.kw_only) == (True, False), f"{cls.__name__}.{f.name} needs the standard dataclass"
        default, value = f"default_{f.name}", f.name
        if f.default is not dataclasses.MISSING:
            scope[default] = f.default
            parameters.append(f"{f.name}={default}")
        elif f.default_factory is not dataclasses.MISSING:
            scope[default] = f.default_factory
            parameters.append(f"{f.name}=LEFT_OUT")
            made_default = _EMPTY.get(f.default_factory, f"{default}()")
            value = f"{made_default} if {f.name} is LEFT_OUT else {f.name}"
        else:
            parameters.append(f.name)
        if is_frozen:  # by the slot itself: object.__setattr__ takes 1.6 times as long
            scope[f"set_{f.name}"] = getattr(cls, f.name).__set__
            body.append(f"    set_{f.name}(self, {value})")
        else:
            body.append(f"    self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()")
    text = "\n".join([f"def __init__({', '.join(parameters)}):", *(body or ["    pass"])])
    exec(compile(text, f"<constructor of {cls.__name__}>", "exec"), scope)
    made: Callable[..., None] = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def uncompiled_constructor(cls: Any) -> Callable[..., None]:
    """An `__init__` that does what the compiled one does, in two to three times as long; without `__post_init__`."""
    assert not hasattr(cls, "__post_init__"), cls
    setters = {f.name: getattr(cls, f.name).__set__ for f in dataclasses.fields(cls)}
    defaults, factories = dict[str, object](), dict[str, Callable[[], object]]()
    for f in dataclasses.fields(cls):
        if f.default is not dataclasses.MISSING:
            defaults[f.name] = f.default
        elif f.default_factory is not dataclasses.MISSING:
            factories[f.name] = f.default_factory
    needed = setters.keys() - defaults.keys() - factories.keys()

    def __init__(self: Any, *values: Any, **by_name: Any) -> None:
        given = dict(zip(setters, values, strict=False)) | by_name
        if len(given) < len(values) + len(by_name) or not needed <= given.keys() <= setters.keys():
            constructor(cls)(self, *values, **by_name)  # which raises the TypeError
        made = {name: make() for name, make in factories.items() if name not in given}
        for name, value in (defaults | made | given).items():
            setters[name](self, value)

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


class _Values(dict[Any, Callable[[object], Any]]):
    """By class, what makes a tuple of an object's compared fields."""

    def __missing__(self, cls: Any) -> Callable[[object], Any]:
        names = [f.name for f in dataclasses.fields(cls) if f.compare]
        values: Callable[[object], Any]
        values = attrgetter(*names) if len(names) > 1 else lambda of: tuple(getattr(of, name) for name in names)
        self[cls] = values
        return values


_VALUES = _Values()


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({values})"


def _eq(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    values = _VALUES[type(self)]
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(_VALUES[type(self)](self))


def _refuse_set(self: object, name: str, value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for f, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
