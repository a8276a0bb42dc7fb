"""The rules of the house that a machine can check: types, style, layers, sizes."""

from __future__ import annotations

import ast
import graphlib
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import grimp
import pytest

from conftest import LONG_FILES

ROOT = Path(__file__).parent.parent
# A message of the protocol has the name of Kafka's schema, which documents it.
OF_KAFKAS_SCHEMAS = ROOT / "src" / "coterie" / "wire" / "messages"
# What is short speaks for itself (a handler is named after its API, a property of a line after its value), but in these rooms.
SHORT_FUNCTIONS_NEED_IT = ("coterie_conformance", "configuration", "console", "consuming", "laboratory", "producing")
SHORT_METHODS_NEED_IT = ("consuming", "producing")
SHORT_LINES = 3
# The actors of the laboratory are processes that start, crash and submit: their base documents these methods.
OVERRIDES_MAY_BE_SILENT = ("laboratory",)
REFUSED_BY_THE_CORE = (
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "TxnOffsetCommit",
    "OffsetDelete",
    "DeleteGroups",
    "ConsumerGroupHeartbeat",
)
SOURCES = sorted(
    path
    for package in (ROOT / "src" / "coterie", ROOT / "conformance" / "src" / "coterie_conformance")
    for path in package.rglob("*.py")
)
CHECKED = ("src", "tests", "conformance", "conftest.py", "docs")
# Where clients sleep: the door, and Spark's process, where another one has nothing to wait for.
CLIENT_SLEEPS = {"client/pauses/clock.py", "client/pauses/loop_clock.py", "pipeline/queries.py"}


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


def test_no_room_is_called_utils() -> None:
    forbidden = {"utils", "helpers", "common", "base", "manager", "util", "helper", "misc"}
    assert not [p for p in SOURCES if forbidden & {p.stem, *p.parent.relative_to(ROOT).parts}]


def comments_behind_brackets(text: str) -> list[int]:
    """The lines where a comment stands behind the bracket that ends a statement: the formatter broke a line for it that would
    be whole without, and it belongs above."""
    lines: dict[int, list[tokenize.TokenInfo]] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        lines.setdefault(token.start[0], []).append(token)
    return [
        number
        for number, (first, *rest) in lines.items()
        if next((t.string for t in (first, *rest) if t.string.strip()), "") in {")", "]", "}"}
        and any(t.type == tokenize.COMMENT and not t.string.startswith(("# fmt:", "# noqa", "# type:")) for t in rest)
    ]


def test_comments_break_no_line() -> None:
    paths = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "conformance/tests").rglob("*.py"))]
    broken = {str(p.relative_to(ROOT)): lines for p in paths if (lines := comments_behind_brackets(p.read_text()))}
    assert not broken


def test_a_comment_behind_a_bracket_is_seen() -> None:
    assert comments_behind_brackets(
        "a: list[\n    int\n] = []  # why\nb = f(1)  # fine\nc = [\n    2,  # fine\n]\n"
    ) == [3]


def test_functions_and_files_stay_in_size() -> None:
    grown = []
    for path in SOURCES:
        text = path.read_text()
        if text.count("\n") > 400:
            grown.append(f"{path.relative_to(ROOT)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > 60:
                    grown.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {length} lines")
    assert not grown, "\n".join(grown)


def test_every_module_says_what_it_is_for() -> None:
    silent = [p for p in SOURCES if not ast.get_docstring(ast.parse(p.read_text()))]
    assert not silent


def undocumented(
    text: str, *, documented: frozenset[str] = frozenset(), short_function: int = 0, short_method: int = 0
) -> list[str]:
    """The module's public classes without a docstring, and its public functions and methods of more lines than short ones have.
    ``documented``: methods, as `Class.method`, that have one, which serves for the subclasses as well."""
    names = []
    for node in _public(ast.parse(text)):
        names += [node.name] if _is_silent(node, short_function) else []
        if isinstance(node, ast.ClassDef):
            inherited = {name.partition(".")[2] for name in documented if name.partition(".")[0] in _bases(node)}
            silent = [m.name for m in _public(node) if _is_silent(m, short_method)]
            names += [f"{node.name}.{name}" for name in silent if name not in inherited]
    return names


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def documented_methods(texts: list[str]) -> frozenset[str]:
    """The methods, as `Class.method`, that have a docstring or override one that has."""
    classes = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    bases = {c.name: _bases(c) for c in classes}
    own = {c.name: {m.name for m in _public(c) if ast.get_docstring(m)} for c in classes}

    def of(name: str) -> set[str]:
        return own.get(name, set()).union(*(of(base) for base in bases.get(name, ()) if base != name))

    return frozenset(f"{name}.{method}" for name in own for method in of(name))


def _is_silent(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, short_lines: int) -> bool:
    lines = (node.end_lineno or 0) - node.body[0].lineno + 1
    return not ast.get_docstring(node) and (isinstance(node, ast.ClassDef) or lines > short_lines)


def _public(tree: ast.Module | ast.ClassDef) -> list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in tree.body if isinstance(node, definitions) and not node.name.startswith("_")]


def test_what_is_public_is_documented() -> None:
    paths = [path for path in SOURCES if path.parent != OF_KAFKAS_SCHEMAS]
    documented = documented_methods([path.read_text("utf-8") for path in paths])
    silent = []
    for path in paths:
        root, _, room = path.relative_to(ROOT).parts[:3]
        room = "coterie_conformance" if root == "conformance" else room
        names = undocumented(
            path.read_text("utf-8"),
            documented=documented if room in OVERRIDES_MAY_BE_SILENT else frozenset(),
            short_function=0 if room in SHORT_FUNCTIONS_NEED_IT else SHORT_LINES,
            short_method=0 if room in SHORT_METHODS_NEED_IT else SHORT_LINES,
        )
        silent += [f"{path.relative_to(ROOT)}: {name}" for name in names]
    assert not silent, "\n".join(silent)


def test_an_undocumented_name_is_seen() -> None:
    text = "def f() -> None: ...\n\n\nclass _C: ...\n\n\nclass C:\n    'Doc'\n    def m(self): ...\n    def _m(self): ...\n"
    assert undocumented(text) == ["f", "C.m"]
    text = "def f():\n    a = 1\n    return a\n\n\nclass C:\n    def m(self):\n        return 1\n"
    assert undocumented(text, short_function=1, short_method=1) == ["f", "C"]
    assert undocumented(text, short_function=2, short_method=1) == ["C"]


def test_a_docstring_serves_for_the_methods_that_override() -> None:
    base = "class A:\n    'Doc'\n    def m(self):\n        'Doc'\n\n\nclass B(A):\n    'Doc'\n"
    text = "class C(B):\n    'Doc'\n    def m(self): ...\n    def n(self): ...\n"
    assert undocumented(text, documented=documented_methods([base, text])) == ["C.n"]


def test_no_wait_loses_a_cancellation() -> None:
    """asyncio.wait_for of Python 3.11 does, where the answer comes in the same turn: asyncio.timeout is used instead."""
    for path in SOURCES:
        assert "asyncio.wait_for(" not in path.read_text(), path


def sleeps(text: str) -> int:
    """The calls of asyncio.sleep and time.sleep; asyncio.sleep(0) only gives the loop a turn."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return sum(
        ast.unparse(call.func) in ("asyncio.sleep", "time.sleep")
        and not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
        for call in calls
    )


def test_clients_sleep_in_one_place() -> None:
    """What can be an event is waited for, with a machine's deadline as its limit (`until_woken`)."""
    sleepers = {
        path.relative_to(ROOT / "src" / "coterie").as_posix()
        for room in ("client", "pipeline")
        for path in (ROOT / "src" / "coterie" / room).rglob("*.py")
        if sleeps(path.read_text("utf-8"))
    }
    assert sleepers == CLIENT_SLEEPS


def test_the_clock_and_the_randomness_of_clients_are_read_in_one_place() -> None:
    """`client/pauses/clock` has both; `Producer.send` reads the clock itself, for each record."""
    readers = {
        path.relative_to(ROOT / "src" / "coterie").as_posix()
        for room in ("client", "pipeline")
        for path in (ROOT / "src" / "coterie" / room).rglob("*.py")
        if "monotonic() * 1000" in (text := path.read_text("utf-8")) or "random.uniform(" in text
    }
    assert readers == {"client/pauses/clock.py", "client/producer/producer.py"}


def test_a_sleep_is_counted() -> None:
    text = "import time, asyncio\ntime.sleep(1)\nasync def f():\n    await asyncio.sleep(delay)\n    await asyncio.sleep(0)\n"
    assert sleeps(text) == 2


def errors_by_hand(text: str) -> list[str]:
    """What makes an error response to a request of a group beside `refuse`."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    made = [ast.unparse(call.func) for call in calls if any(keyword.arg == "error_code" for keyword in call.keywords)]
    shaped = [ast.unparse(call.func) for call in calls]
    return [
        *(name for name in made if name.removesuffix("Response") in REFUSED_BY_THE_CORE),
        *(name for name in shaped if name in ("join_refused", "sync_refused", "commit_refused", "txn_commit_refused")),
    ]


def test_the_driver_makes_no_error_response_of_a_group() -> None:
    by_hand = {
        path.name: lines
        for path in (ROOT / "src" / "coterie" / "broker").rglob("*.py")
        if (lines := errors_by_hand(path.read_text("utf-8")))
    }
    # What Kafka refuses before its coordinator has no error message.
    assert by_hand == {"consumer_groups.py": ["ConsumerGroupHeartbeatResponse"]}


def test_an_error_response_by_hand_is_seen() -> None:
    assert errors_by_hand("answer(JoinGroupResponse(error_code=code))") == ["JoinGroupResponse"]
    assert errors_by_hand("return sync_refused(code)") == ["sync_refused"]
    assert errors_by_hand("return refuse(request, code)") == []


def test_the_long_files_are_there() -> None:
    """A file that has another name now is no longer started first, and a worker may be left with it at the end."""
    assert not [name for name in LONG_FILES if not (ROOT / name).exists()]
