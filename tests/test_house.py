"""The rules of the house that a machine can check: types, style, layers, sizes."""

from __future__ import annotations

import ast
import functools
import graphlib
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
# A message of the protocol has the name of Kafka's schema, which documents it.
OF_KAFKAS_SCHEMAS = ROOT / "src" / "coterie" / "wire" / "messages"
SHORT_LINES = 3  # a function of so many speaks for itself
SOURCES = sorted(
    path
    for package in (ROOT / "src" / "coterie", ROOT / "conformance" / "src" / "coterie_conformance")
    for path in package.rglob("*.py")
)
CHECKED = ("src", "tests", "conformance", "conftest.py", "docs", "examples")


def run(*command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types() -> None:
    run("mypy", "--no-error-summary")


def test_style() -> None:
    run("ruff", "check", *CHECKED)


def test_format() -> None:
    run("ruff", "format", "--check", "-q", *CHECKED)


def test_imports_point_down() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_no_imports_run_in_a_circle() -> None:
    """Also none that only types need, or a function: these count as any other."""
    graph = grimp.build_graph("coterie", "coterie_conformance", cache_dir=None)
    imports = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_the_drawing_of_imports_has_at_most_twelve_floors() -> None:
    graph = grimp.build_graph("coterie", cache_dir=None)
    for room in graph.find_children("coterie"):
        graph.squash_module(room)
    rooms = {
        room: graph.find_modules_directly_imported_by(room) - {"coterie", room}
        for room in graph.find_children("coterie")
    }
    floors = dict[str, int]()
    for room in graphlib.TopologicalSorter(rooms).static_order():
        floors[room] = 1 + max((floors[below] for below in rooms[room]), default=0)
    assert max(floors.values()) <= 12, sorted(floors.items(), key=lambda item: item[1])


def test_no_room_is_called_utils() -> None:
    forbidden = {"utils", "helpers", "common", "base", "manager", "util", "helper", "misc"}
    assert not [p for p in SOURCES if forbidden & {p.stem, *p.parent.relative_to(ROOT).parts}]


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The module, parsed once for the tests of this file."""
    return ast.parse(path.read_text("utf-8"))


def test_functions_and_files_stay_in_size() -> None:
    grown = []
    for path in SOURCES:
        text = path.read_text()
        if text.count("\n") > 400:
            grown.append(f"{path.relative_to(ROOT)}: {text.count(chr(10))} lines")
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > 60:
                    grown.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {length} lines")
    assert not grown, "\n".join(grown)


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path in SOURCES if not ast.get_docstring(tree_of(path))]
    assert not silent


def undocumented(tree: ast.Module) -> list[str]:
    """The module's public classes without a docstring, and its public functions and methods of more than a few lines. A method
    of a subclass may have the docstring of the one that it overrides."""
    names = []
    for node in _public(tree):
        names += [node.name] if _is_silent(node) else []
        if isinstance(node, ast.ClassDef) and not node.bases:
            names += [f"{node.name}.{method.name}" for method in _public(node) if _is_silent(method)]
    return names


def _is_silent(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    lines = (node.end_lineno or 0) - node.body[0].lineno + 1
    return not ast.get_docstring(node) and (isinstance(node, ast.ClassDef) or lines > SHORT_LINES)


def _public(tree: ast.Module | ast.ClassDef) -> list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in tree.body if isinstance(node, definitions) and not node.name.startswith("_")]


def test_what_is_public_is_documented() -> None:
    paths = [path for path in SOURCES if OF_KAFKAS_SCHEMAS not in path.parents]
    silent = [f"{path.relative_to(ROOT)}: {name}" for path in paths for name in undocumented(tree_of(path))]
    assert not silent, "\n".join(silent)


def test_an_undocumented_name_is_seen() -> None:
    body = "    a = 1\n    a += 1\n    a += 1\n    return a\n"
    text = f"def f():\n{body}\n\ndef g():\n    return 1\n\n\ndef _h():\n{body}\n\nclass C:\n    def m(self):\n"
    text += body.replace("    ", "        ")
    assert undocumented(ast.parse(text)) == ["f", "C", "C.m"]
    assert undocumented(ast.parse(text.replace("class C:", "class C(B):"))) == ["f", "C"]
