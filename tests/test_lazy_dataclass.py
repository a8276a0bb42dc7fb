"""`lazy_dataclass` makes the classes that the standard decorator makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from coterie.lazy_dataclass import MANY_FIELDS, lazy_dataclass

T = TypeVar("T")
Decorator = Callable[..., Callable[[type[Any]], type[Any]]]


def classes(dataclass: Decorator) -> dict[str, type[Any]]:
    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: list[int] = field(default_factory=list)
        z: str = field(default="z", compare=False, repr=False)

    @dataclass(frozen=True, slots=True)
    class Empty: ...

    @dataclass(frozen=True, slots=True)
    class Single(Generic[T]):
        only: T

    @dataclass(frozen=True, slots=True)
    class Longer(Single[int]):
        """With a field of its base."""

        more: int = 7

    @dataclass(slots=True)
    class Changing:
        count: int = 0
        seen: set[int] = field(default_factory=set)

        def __post_init__(self) -> None:
            self.count += 1

    @dataclass(slots=True, eq=False)
    class Identity:
        name: str

    @dataclass(frozen=True, slots=True)
    class OwnText:
        a: int

        def __repr__(self) -> str:
            return f"<{self.a}>"

    @dataclass(slots=True, unsafe_hash=True)
    class Assigned:
        a: int
        b: int = 2

    @dataclass(slots=True, frozen=True)
    class Counted:
        number: int
        made: ClassVar[int] = 3

    @dataclass(slots=True, frozen=True, init=False)
    class OwnInit:
        a: int

        def __init__(self, a: int) -> None:
            object.__setattr__(self, "a", a)

    names = [f"field_{number}" for number in range(MANY_FIELDS)]
    defaults = {names[-2]: 7, names[-1]: field(default_factory=list)}
    annotations = {
        "__annotations__": dict.fromkeys(names, "object"),
        "__module__": __name__,
        "__doc__": "Of many fields.",
    }
    Many = dataclass(frozen=True, slots=True)(type("Many", (), annotations | defaults))
    ChangingMany = dataclass(slots=True)(type("ChangingMany", (), annotations | defaults))

    made = (Point, Empty, Single, Longer, Changing, Identity, OwnText, Assigned, Counted, OwnInit, Many, ChangingMany)
    return {cls.__name__: cls for cls in made}


OURS, THEIRS = classes(lazy_dataclass), classes(dataclasses.dataclass)
CONSTRUCTIONS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Point", (1,), {}),
    ("Point", (1, [2]), {"z": "other"}),
    ("Point", (), {"x": 5, "y": [6]}),
    ("Empty", (), {}),
    ("Single", (float("nan") if sys.version_info < (3, 13) else 1.5,), {}),  # the same NaN was equal until then
    ("Longer", (1,), {}),
    ("Longer", (1,), {"more": 2}),
    ("Changing", (), {}),
    ("Changing", (4, {1}), {}),
    ("Identity", ("n",), {}),
    ("OwnText", (3,), {}),
    ("Assigned", (3,), {}),
    ("Counted", (3,), {}),
    ("OwnInit", (3,), {}),
    *(
        (name, tuple(range(by_place)), {f"field_{number}": number for number in range(by_place, last)})
        for name in ("Many", "ChangingMany")
        for by_place, last in ((0, MANY_FIELDS - 2), (5, MANY_FIELDS - 1), (MANY_FIELDS, 0))
    ),
]
# pickle finds a class by its module and name
for cls in OURS.values():
    cls.__qualname__ = f"OURS_{cls.__name__}"
    globals()[cls.__qualname__] = cls


def text_of(value: object) -> str:
    return repr(value).replace("OURS_", "").replace("classes.<locals>.", "")


@pytest.mark.parametrize(("name", "values", "by_name"), CONSTRUCTIONS)
def test_instances_are_as_the_standard_ones(name: str, values: tuple[Any, ...], by_name: dict[str, Any]) -> None:
    ours, again = OURS[name](*values, **by_name), OURS[name](*copy.deepcopy(values), **by_name)
    theirs, theirs_again = THEIRS[name](*values, **by_name), THEIRS[name](*copy.deepcopy(values), **by_name)
    assert text_of(ours) == text_of(theirs)
    assert (ours == again) is (theirs == theirs_again)
    assert (ours != again) is (theirs != theirs_again)
    assert (ours == theirs) is False
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs) or name == "Single"  # a NaN
    assert type(ours).__match_args__ == type(theirs).__match_args__
    assert not hasattr(ours, "__dict__")
    for made in (copy.copy(ours), pickle.loads(pickle.dumps(ours)), dataclasses.replace(ours)):
        assert type(made) is type(ours)
        if name != "Changing":  # whose __post_init__ counts
            assert text_of(made) == text_of(ours)


@pytest.mark.parametrize("name", OURS)
def test_hashes_and_refusals_are_as_the_standard_ones(name: str) -> None:
    some = {
        "Empty": (),
        "Changing": (),
        "Point": (1, (2,)),
        **dict.fromkeys(("Many", "ChangingMany"), (1,) * MANY_FIELDS),
    }
    values = some.get(name, (1,))
    ours, theirs = OURS[name](*values), THEIRS[name](*values)
    assert (type(ours).__hash__ is None) is (type(theirs).__hash__ is None)
    if name not in ("Changing", "Identity", "ChangingMany"):
        assert hash(ours) == hash(theirs)
    for field_name in [f.name for f in dataclasses.fields(ours)]:
        for change in (lambda of: setattr(of, field_name, 1), lambda of: delattr(of, field_name)):  # noqa: B023
            assert outcome(change, ours) == outcome(change, theirs)
    needless = dict.fromkeys(f.name for f in dataclasses.fields(ours))
    for construction in (
        lambda of: type(of)(*range(MANY_FIELDS + 1)),
        lambda of: type(of)(**needless, unknown=1),
        lambda of: type(of)(1, unknown=1),
        lambda of: type(of)(1, **needless),
    ):
        assert (outcome(construction, ours), outcome(construction, theirs)) == (TypeError, TypeError)
    assert outcome(lambda of: type(of)(), ours) == outcome(lambda of: type(of)(), theirs)


def test_fields_are_as_the_standard_ones() -> None:
    """A plain class below has its base's, whichever of the two is asked first."""

    def shown(of: Any) -> list[tuple[object, ...]]:
        parts = ("name", "type", "default", "default_factory", "init", "repr", "hash", "compare", "kw_only", "metadata")
        return [tuple(getattr(f, part) for part in parts) for f in dataclasses.fields(of)]

    for name, theirs in classes(dataclasses.dataclass).items():
        assert shown(OURS[name]) == shown(theirs), name
        below = type("Below", (classes(lazy_dataclass)[name],), {})
        assert (shown(below), shown(below.__base__)) == (shown(theirs), shown(theirs)), name
        assert OURS[name].__slots__ == theirs.__slots__, name
        options = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")
        ours_has, theirs_has = ([getattr(of.__dataclass_params__, o) for o in options] for of in (OURS[name], theirs))
        assert ours_has == theirs_has, name


def outcome(action: Callable[[Any], object], of: Any) -> type[Exception] | None:
    try:
        action(of)
    except (TypeError, AttributeError) as error:
        return type(error)
    return None


def test_the_constructor_is_compiled_once_and_then_alone() -> None:
    made = classes(lazy_dataclass)
    made["Longer"](1)
    first = vars(made["Longer"])["__init__"]
    made["Longer"](1)
    assert vars(made["Longer"])["__init__"] is first
    assert first.__qualname__.endswith("Longer.__init__")
    assert not inspect.isfunction(vars(made["Single"])["__init__"])


def test_the_constructor_of_many_fields_is_not_compiled() -> None:
    """A start has settings of 82 fields, and makes them once."""
    made = classes(lazy_dataclass)
    for name, is_compiled in (("Many", False), ("ChangingMany", False), ("Longer", True)):
        made[name](*range(len(made[name].__match_args__)))
        constructor: Any = made[name].__init__
        assert constructor.__code__.co_filename.startswith("<constructor of ") is is_compiled, name
        assert constructor.__qualname__.endswith(f"{name}.__init__")


def test_signatures_are_as_the_standard_ones() -> None:
    """Before the first construction and after it. That of many fields takes any values."""
    ours, theirs = classes(lazy_dataclass), classes(dataclasses.dataclass)

    def shown(of: Callable[..., Any]) -> list[tuple[str, object, bool]]:
        parameters = inspect.signature(of).parameters.values()
        return [(p.name, p.annotation, p.default is p.empty) for p in parameters]

    for name in ours.keys() - {"Many", "ChangingMany"}:
        before = shown(ours[name])
        assert before == shown(theirs[name]), name
        ours[name](*[number for number, (_, _, is_needed) in enumerate(before) if is_needed])
        assert shown(ours[name]) == before
        assert shown(ours[name].__init__) == shown(theirs[name].__init__), name
    assert str(inspect.signature(ours["Assigned"])) == str(inspect.signature(theirs["Assigned"]))


def test_a_subclass_with_its_own_constructor_calls_that_of_its_base() -> None:
    single = classes(lazy_dataclass)["Single"]

    class Own(single):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(5)

    assert (Own().only, single(6).only, Own().only) == (5, 6, 5)


def test_threads_may_construct_a_class_first_at_once() -> None:
    for _ in range(50):
        point, made = classes(lazy_dataclass)["Point"], list[Any]()
        threads = [threading.Thread(target=lambda made=made, point=point: made.append(point(1))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one.x for one in made] == [1] * 4


def test_fields_that_need_the_standard_decorator_are_refused() -> None:
    @lazy_dataclass(frozen=True, slots=True)
    class Derived:
        a: int = field(default=0, init=False)

    with pytest.raises(AssertionError, match=r"Derived\.a needs the standard dataclass"):
        Derived()

    @lazy_dataclass(slots=True)
    class Shared:
        seen: list[int] = []

    with pytest.raises(AssertionError, match="seen needs a default_factory"):
        Shared()


@pytest.mark.parametrize(
    ("start", "public"),
    [
        ("import coterie.cli.broker, coterie.broker.broker", set()),
        (
            "from coterie.client import Admin, Consumer, Producer",
            {
                f"client.{name}"
                for name in (
                    "admin_each",
                    "admin_types",
                    "advice",
                    "group_explanation",
                    "lint_rule",
                    "telemetry_clients",
                    "types",
                )
            },
        ),
    ],
)
def test_a_start_has_no_other_dataclasses(start: str, public: set[str]) -> None:
    """Each class of the standard decorator costs 0.2 to 0.4 ms. ``public``: classes of users, who see the signatures."""
    code = (
        "import dataclasses; made = []; process = dataclasses._process_class\n"
        "def spy(cls, *options): made.extend([cls.__module__] * any(options[:3])); return process(cls, *options)\n"
        f"dataclasses._process_class = spy\n{start}; print(*made)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) == {f"coterie.{module}" for module in public}
