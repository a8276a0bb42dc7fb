"""ARCHITECTURE.md names functions, folders and files that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "coterie"
TEXT = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
FUNCTION = re.compile(r"`([\w/]+\.py):([\w.]+)`")


def definitions(tree: ast.Module) -> Iterator[str]:
    """`function`, `Class` and `Class.method` of a module."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            for part in node.body:
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{part.name}"


def defines(path: str, name: str) -> bool:
    file = PACKAGE / path
    return file.is_file() and name in set(definitions(ast.parse(file.read_text("utf-8"))))


@pytest.mark.parametrize("path_and_name", sorted(set(FUNCTION.findall(TEXT))), ids=":".join)
def test_a_named_function_exists(path_and_name: tuple[str, str]) -> None:
    assert defines(*path_and_name)


def test_a_function_that_does_not_exist_is_reported() -> None:
    assert len(set(FUNCTION.findall(TEXT))) > 25
    assert not defines("coordinator/shard.py", "Shard.no_such_method")
    assert not defines("coordinator/no_such_file.py", "drive")


def test_every_folder_of_the_package_has_a_room() -> None:
    rooms = TEXT.partition("## Rooms")[2].partition("## ")[0]
    folders = {path.parent.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE}
    assert not {folder for folder in folders if f"`{folder}/`" not in rooms}


def test_every_decision_has_context_choice_and_cost() -> None:
    pages = [path for path in (ROOT / "docs" / "decisions").rglob("*.md") if path.name != "index.md"]
    assert len(pages) >= 50
    for page in pages:
        headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
        assert headings[1:] == ["Context", "Choice", "Cost"], page
