"""What the compiled edition is made of: the written out methods are those of `dataclass`, constants are the same, and no source
breaks a rule of mypyc's that the interpreter does not have."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

import pytest

import compiled_edition
import compiled_modules
import compiled_text
from coterie import lazy_dataclass

ROOT = Path(__file__).parent.parent
FUTURE = "from __future__ import annotations\n\n"
ON_THE_BUILT = (ROOT / "tests/compiled.txt").read_text().split()  # files and folders, arguments of pytest
EACH_MODULE = pytest.mark.parametrize("file", compiled_modules.module_files())
EACH_WRITTEN_OUT = pytest.mark.parametrize(
    "file", [f for f in compiled_modules.module_files() if not compiled_modules.is_of_messages(f)]
)
BASES = frozenset().union(
    *(compiled_text.bases_of((compiled_modules.SOURCE / file).read_text()) for file in compiled_modules.module_files())
)


def interpretable(text: str) -> str:
    """A written out constructor of a frozen dataclass assigns to its fields: compiled code may, the interpreter may not. What
    mypyc alone reads is left out."""
    text = text.replace("eq=False, frozen=True", "eq=False").replace("frozen=True", "unsafe_hash=True")
    return text.replace(compiled_text.OPEN_TO_HEIRS, "")


def write_interpretable(folder: Path) -> None:
    """The sources that the compiled edition is made of."""
    compiled_edition.write_sources(folder)
    for file in compiled_modules.module_files():
        path = folder / "coterie" / file
        path.write_text(interpretable(path.read_text("utf-8")), "utf-8")


def written_out(file: str) -> tuple[ModuleType, ModuleType]:
    """A module of the package, and the same with written out methods."""
    name = "coterie." + file.removesuffix(".py").replace("/", ".")
    source = compiled_modules.SOURCE / file
    text = compiled_text.write_out(source.read_text("utf-8"), BASES, comparisons=compiled_text.compares(file))
    assert text.count("\n") == source.read_text("utf-8").count("\n")
    other = ModuleType(name)
    sys.modules[f"{name}.written_out"] = other
    other.__name__ = f"{name}.written_out"
    exec(compile(interpretable(text), str(source), "exec"), other.__dict__)
    __import__(name)
    return sys.modules[name], other


def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


def classes_of(path: Path) -> list[ast.ClassDef]:
    return [node for node in nodes_of(path) if isinstance(node, ast.ClassDef)]


def decorator_of(file: str, name: str) -> str:
    """Of a class that is a dataclass."""
    node = next(node for node in classes_of(compiled_modules.SOURCE / file) if node.name == name)
    return ast.unparse(node.decorator_list[0])


def dataclasses_of(file: str) -> list[tuple[str, Any, Any]]:
    """The dataclasses of a module: the name of each, the class, and that with written out methods."""
    original, other = written_out(file)
    return [
        (name, cls, getattr(other, name))
        for name, cls in vars(original).items()
        if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == original.__name__
    ]


def is_written_out(method: Any) -> bool:
    """Whether dataclass has not made it."""
    code = getattr(method, "__code__", None)
    return code is not None and not code.co_filename.startswith(
        ("<string>", "<constructor of ", lazy_dataclass.__file__)
    )


@EACH_WRITTEN_OUT
def test_written_out_constructors_are_those_of_dataclass(file: str) -> None:
    """Each takes the same arguments, and gives every field what `dataclass` gives it."""
    for name, cls, twin in dataclasses_of(file):
        if not is_written_out(twin.__init__):
            continue
        mine = {n: p for n, p in inspect.signature(lazy_dataclass.constructor(cls)).parameters.items() if n != "self"}
        its = inspect.signature(twin).parameters
        assert list(mine) == list(its)
        required = {n: object() for n, p in mine.items() if p.default is inspect.Parameter.empty}
        assert set(required) == {n for n, p in its.items() if p.default is inspect.Parameter.empty}
        everything = {n: object() for n in mine}
        for arguments in (everything, required):
            one, two = cls(**arguments), twin(**arguments)
            for field in dataclasses.fields(cls):
                values = getattr(one, field.name), getattr(two, field.name)
                assert values[0] is values[1] or type(values[0]).__qualname__ == type(values[1]).__qualname__, (
                    field.name
                )
                assert (
                    field.name in arguments
                    or repr(values[0]).partition(" at ")[0] == repr(values[1]).partition(" at ")[0]
                )
        assert (
            (cls.__eq__ is object.__eq__) == (twin.__eq__ is object.__eq__) == ("eq=False" in decorator_of(file, name))
        )


@EACH_WRITTEN_OUT
def test_written_out_comparisons_are_those_of_dataclass(file: str) -> None:
    """Objects of one class are equal where all compared fields are; equal objects have equal hashes."""
    for _, cls, twin in dataclasses_of(file):
        if not is_written_out(twin.__eq__):
            continue
        values = {f.name: object() for f in dataclasses.fields(cls)}
        one, two = made(cls, values), made(twin, values)
        assert two == made(twin, values)
        assert two != one
        assert twin.__eq__(two, one) is NotImplemented
        for field in dataclasses.fields(cls):
            changed = values | {field.name: object()}
            assert (one == made(cls, changed)) == (two == made(twin, changed)) == (not field.compare), field.name
        assert (cls.__hash__ is None) == (twin.__hash__ is None)
        assert cls.__hash__ is None or hash(one) == hash(two)


def made(cls: Any, values: dict[str, object]) -> Any:
    """An object of a dataclass with these fields, whatever its constructor does."""
    instance = cls.__new__(cls)
    for name, each in values.items():
        object.__setattr__(instance, name, each)
    return instance


def test_a_field_that_is_not_compared_is_left_out() -> None:
    fields = "    x: int\n    y: int = field(default=0, compare=False)\n"
    written = compiled_text.write_out(f"{FUTURE}@dataclass\nclass A:\n    '.'\n\n{fields}")
    assert "self.x == other.x" in written
    assert "other.y" not in written


def test_the_same_object_is_equal_whatever_its_class_says() -> None:
    """As in a comparison of tuples."""
    source = f"{FUTURE}from dataclasses import dataclass\n@dataclass\nclass A:\n    x: float\n"
    written = compiled_text.write_out(f"{source}\n\n")
    assert "def __eq__" in written
    for text in (source, written):
        scope: dict[str, Any] = {}
        exec(text, scope)
        number = float("nan")
        assert scope["A"](number) == scope["A"](number)
        assert scope["A"](number) != scope["A"](float("nan"))


@EACH_WRITTEN_OUT
def test_final_constants_are_those_of_the_source(file: str) -> None:
    """Of a module just run: some fill themselves in use."""
    (imported, other), source = written_out(file), (compiled_modules.SOURCE / file).read_text("utf-8")
    original = ModuleType(other.__name__)
    sys.modules[original.__name__] = original
    exec(compile(source, file, "exec"), original.__dict__)
    for name in filter(compiled_text.CONSTANT.fullmatch, vars(imported)):
        texts = [repr(vars(module)[name]).partition(" at ")[0] for module in (original, other)]
        assert sorted(texts[0]) == sorted(texts[1]), name  # sets are in any order


def test_constants_are_declared_final() -> None:
    """Module variables in capitals that are assigned once."""
    source = "A_B = 1\n_C: dict[str, int] = {}\nX, Y = 1, 2\n"
    others = "T = TypeVar('T')\nD = E.F\nMANY = 3\nname = 1\nZ = 1\nif Y: Z = 2\n"
    assert compiled_text.write_out(FUTURE + source + others).split("\n")[1:] == [
        "from typing import Final",
        "A_B: Final = 1",
        "_C: Final[dict[str, int]] = {}",
        "X: Final = 1; Y: Final = 2",
        *others.split("\n"),
    ]


def test_a_constant_that_a_test_changes_is_not_final() -> None:
    """mypyc reads a final one from where the module cannot change it."""
    pattern = re.compile(r'setattr\((?:\w+, |"coterie[a-z_.]*\.)"?([A-Z_]+)"')
    texts = [path.read_text("utf-8") for folder in ON_THE_BUILT for path in sources_in(ROOT / folder)]
    changed = {name for text in texts for name in pattern.findall(text)}
    constants = {
        name
        for file in compiled_modules.module_files()
        if not compiled_modules.is_of_messages(file)
        for node in ast.parse((compiled_modules.SOURCE / file).read_text("utf-8")).body
        for name, _ in compiled_text._assigned(node)
    }
    assert changed & constants == compiled_text.VARIED


@EACH_MODULE
def test_each_exception_of_a_function_has_a_name_of_its_own(file: str) -> None:
    """mypyc gives a variable the type of its first `except`, and the next one fails with TypeError."""
    for function in nodes_of(compiled_modules.SOURCE / file):
        if isinstance(function, ast.FunctionDef):
            caught = {(n.name, ast.unparse(n.type)) for n in ast.walk(function) if _names_exception(n) and n.type}
            names = [name for name, _ in caught]
            assert len(names) == len(set(names)), f"{function.name}: {sorted(caught)}"


def _names_exception(node: ast.AST) -> TypeGuard[ast.ExceptHandler]:
    return isinstance(node, ast.ExceptHandler) and node.name is not None


def imported_into(path: Path) -> dict[str, str]:
    """The names that a source imports, and the file of the package that each comes from."""
    nodes = [n for n in nodes_of(path) if isinstance(n, ast.ImportFrom) and n.module]
    return {
        alias.asname or alias.name: f"{(node.module or '').removeprefix('coterie.').replace('.', '/')}.py"
        for node in nodes
        for alias in node.names
    }


def sources_in(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


@pytest.mark.parametrize("folder", ["src/coterie", *ON_THE_BUILT])
def test_interpreted_classes_inherit_from_open_compiled_ones_alone(folder: str) -> None:
    """Python refuses others when the class is made: of the package, and of the tests that run on the built edition."""
    compiled = set(compiled_modules.module_files())
    for path in sources_in(ROOT / folder):
        if str(path).removeprefix(f"{compiled_modules.SOURCE}/") in compiled:
            continue
        imported = imported_into(path)
        for node in classes_of(path):
            for base in node.bases:
                name = ast.unparse(base).partition("[")[0]
                is_closed = imported.get(name, "") in compiled and name not in compiled_modules.OPEN
                assert not is_closed, f"{path}: {node.name} inherits from {name}, which is compiled"


def test_open_classes_have_interpreted_heirs_and_no_attributes_of_their_own() -> None:
    """mypyc keeps an attribute with a value in the object, unless it is a ClassVar: an heir that gave the name another would be
    ignored. A class that is open has open bases."""
    compiled = set(compiled_modules.module_files())
    heirs = set[str]()
    for folder in (compiled_modules.SOURCE, *(ROOT / entry for entry in ON_THE_BUILT)):
        for path in sources_in(folder):
            is_compiled = str(path).removeprefix(f"{compiled_modules.SOURCE}/") in compiled
            for node in classes_of(path):
                is_open = is_compiled and node.name in compiled_modules.OPEN
                if is_open or not is_compiled:
                    heirs |= {ast.unparse(base).partition("[")[0] for base in node.bases}
                if is_open:
                    values = [part for part in node.body if isinstance(part, ast.Assign | ast.AnnAssign) and part.value]
                    kept = [
                        text for text in map(ast.unparse, values) if "ClassVar" not in text and text != "__slots__ = ()"
                    ]
                    assert not kept, f"{node.name} has {kept[0]}"
    assert heirs >= compiled_modules.OPEN


def test_a_broker_loads_neither_the_groups_of_clients_nor_of_the_laboratory() -> None:
    """A group's memory is that of all its modules; and no module is in two."""
    groups = compiled_modules.grouped()
    assert sorted(file for files in groups.values() for file in files) == sorted(
        f"coterie/{file}" for file in compiled_modules.module_files()
    )
    program = "import sys, coterie.broker.broker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    modules = {group: {file[:-3].replace("/", ".") for file in files} for group, files in groups.items()}
    assert loaded & modules.pop(compiled_modules.THE_REST)
    assert not [module for files in modules.values() for module in loaded & files]


def test_builtin_types_of_fields_are_imported_where_mypyc_takes_them_for_globals() -> None:
    """`object` and exceptions, of a dataclass; else the import of the module fails with KeyError."""
    fields = "class A:\n    '.'\n    x: object\n    y: KeyError\n    z: dict[str, object]\n    n: int\n"
    written = compiled_text.write_out(f"{FUTURE}@dataclass\n{fields}")
    assert written.split("\n")[1] == "from builtins import KeyError, object"
    assert compiled_text.write_out(FUTURE + fields) == FUTURE + fields


def test_a_line_is_shared_by_what_is_imported_for_mypyc() -> None:
    source = f"{FUTURE}\n\nclass Traffic:\n    '.'\n\n\n@dataclass\nclass A:\n    x: object\n"
    assert "Traffic" in compiled_modules.OPEN
    line = compiled_text.write_out(source).split("\n")[1]
    assert line == "from typing import TYPE_CHECKING; from builtins import object"


@EACH_MODULE
def test_no_bound_of_a_slice_calls_what_has_an_effect(file: str) -> None:
    """mypyc 2.4 calls it twice where the value is of one of two types, such as `bytes | bytearray`."""
    inside = [
        part
        for bounds in nodes_of(compiled_modules.SOURCE / file)
        if isinstance(bounds, ast.Slice)
        for part in ast.walk(bounds)
    ]
    called = {ast.unparse(part.func) for part in inside if isinstance(part, ast.Call)}
    assert called <= {"len", "max", "min"}


@EACH_MODULE
def test_no_lambda_takes_any_number_of_arguments(file: str) -> None:
    """mypyc 2.4 writes C for it that no compiler takes, where the lambda has a type with arguments."""
    lambdas = [node for node in nodes_of(compiled_modules.SOURCE / file) if isinstance(node, ast.Lambda)]
    assert not [ast.unparse(each) for each in lambdas if each.args.vararg or each.args.kwarg]


def test_a_dataclass_keeps_its_own_constructor() -> None:
    """Where the written out one would not be the same, or there is no room for it."""
    fields = "    x: int\n    y: list[int] = field(default_factory=list)\n"
    for source in (
        "@dataclass\nclass A(B):\n    '''.'''\n\n" + fields,
        "@dataclass\nclass A:\n" + fields.rstrip("\n"),
        "class A:\n    '''.'''\n\n" + fields,
    ):
        assert compiled_text.write_out(source) == source
    for source in (
        "@dataclass\nclass A:\n    '''.'''\n\n    x: int\n\n    def __post_init__(self) -> None: ...\n",
        "@dataclass\nclass A:\n    '''.'''\n\n    x: int = field(init=False)\n",
    ):
        written = compiled_text.write_out(source)
        assert "def __init__" not in written
        assert written.startswith("@dataclass(eq=False)\nclass A:\n    '''.'''\n    def __eq__(")
    source = "@dataclass(frozen=True)\nclass A:\n    '''.'''\n\n" + fields
    assert compiled_text.write_out(source, frozenset({"A"})) == source
    assert "def __init__(self, x: int, y: list[int] | None = None)" in compiled_text.write_out(source)
