"""A small user's project (tests/typing/user_project) type checks under mypy --strict, with no Any in any expression.

It calls every public method of the clients, so that one which loses its annotation is an error there. What it does with the
asyncio clients is checked as a script on the blocking ones as well."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import Admin, Consumer, Producer, ShareConsumer
from coterie.client.admin.each import Each
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer, BlockingShareConsumer
from coterie.client.blocking.admin_each import BlockingEach
from coterie.testing import LocalBroker, LocalProxy

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCRIPTS = ROOT / ".mypy_cache" / "user_scripts"
ALSO_SCRIPTS = ("administration", "sharing", "streaming")
CLIENTS = {"Admin", "Consumer", "Producer", "ShareConsumer"}
UNTYPED = {"poll_arrow"}  # returns pyarrow's Table, and pyarrow has no annotations
CLASSES = (
    Admin,
    Each,
    Consumer,
    Producer,
    ShareConsumer,
    BlockingAdmin,
    BlockingEach,
    BlockingConsumer,
    BlockingProducer,
    BlockingShareConsumer,
    LocalBroker,
    LocalProxy,
)


class AsScript(ast.NodeTransformer):
    """Makes a module on the asyncio clients one on the blocking clients, whose futures are those of concurrent.futures."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return ast.FunctionDef(**vars(self.generic_visit(node)))

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        return ast.With(**vars(self.generic_visit(node)))

    def visit_Await(self, node: ast.Await) -> ast.AST:
        value = self.visit(node.value)
        if isinstance(node.value, ast.Call):
            return value  # type: ignore[no-any-return]
        return ast.Call(ast.Attribute(value, "result", ast.Load()), [], [])

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if ast.unparse(node) in ("asyncio.Future", "asyncio.Task"):
            return ast.Name("Future", ast.Load())
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(f"Blocking{node.id}", node.ctx) if node.id in CLIENTS else node


def write_scripts() -> None:
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    blocking = ", ".join(f"Blocking{name}" for name in sorted(CLIENTS))
    imports = f"from concurrent.futures import Future\nfrom coterie.client.blocking import {blocking}\n"
    for name in ALSO_SCRIPTS:
        tree = ast.parse((HERE / "user_project" / f"{name}.py").read_text("utf-8"))
        tree.body = [part for part in tree.body if not isinstance(part, ast.If)]  # asyncio.run
        tree.body[2:2] = ast.parse(imports).body
        text = ast.unparse(ast.fix_missing_locations(AsScript().visit(tree)))
        (SCRIPTS / f"{name}_script.py").write_text(text, "utf-8")


def check(*options: str) -> list[str]:
    """mypy's errors in the user's project, ``file:line: error: ...``; the errors of coterie itself are the house's."""
    write_scripts()
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "../mypy.ini",
        "--cache-dir",
        str(ROOT / ".mypy_cache/user"),
    ]
    environment = {"MYPYPATH": str(ROOT / "src"), "PATH": "", "NO_COLOR": "1"}
    done = subprocess.run(
        [*command, *options, ".", str(SCRIPTS)],
        cwd=HERE / "user_project",
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode in (0, 1), done.stderr
    return [line for line in done.stdout.splitlines() if ": error: " in line]


def layers(owner: type) -> Iterator[type]:
    """The class and its bases in coterie."""
    yield from (base for base in owner.__mro__ if base.__module__.startswith("coterie"))


def public_methods(owner: type) -> set[str]:
    return {
        name
        for base in layers(owner)
        for name, value in vars(base).items()
        if not name.startswith("_") and inspect.isfunction(getattr(value, "__func__", value))
    }


def test_the_project_has_no_error() -> None:
    assert check() == []


class WithoutReturns(ast.NodeTransformer):
    """Takes the annotation of what public methods return away."""

    def __init__(self, classes: set[str]) -> None:
        self.classes = classes

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        for method in node.body if node.name in self.classes else ():
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and not method.name.startswith("_"):
                method.returns = None
        return node


@pytest.mark.slow
@pytest.mark.parametrize("owner", CLASSES, ids=lambda owner: owner.__name__)
def test_every_public_method_that_loses_its_annotation_is_an_error(owner: type, tmp_path: Path) -> None:
    options: list[str] = []
    for number, base in enumerate(layers(owner)):
        source = Path(inspect.getsourcefile(base) or "")
        shadow = tmp_path / f"{number}.py"
        tree = WithoutReturns({b.__name__ for b in layers(owner)}).visit(ast.parse(source.read_text("utf-8")))
        shadow.write_text(ast.unparse(tree), "utf-8")
        options += ["--shadow-file", str(source), str(shadow)]
    errors = check(*options)
    files = [*(HERE / "user_project").glob("*.py"), *SCRIPTS.glob("*.py")]
    lines = {path.name: path.read_text("utf-8").splitlines() for path in files}
    reported = set()
    for error in errors:
        name, line, _ = error.split(":", 2)
        reported |= set(re.findall(r"\.(\w+)\(", lines[Path(name).name][int(line) - 1]))
    assert sorted(public_methods(owner) - reported - UNTYPED) == [], "call it in tests/typing/user_project"
