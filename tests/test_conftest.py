"""What conftest.py does so that the suite takes little time."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from pathlib import Path

from conftest import SPARK_FILES, scope, worker_share

ROOT = Path(__file__).parent.parent
FILES = [path for folder in ("tests", "conformance/tests") for path in (ROOT / folder).rglob("test_*.py")]


def test_processes_of_a_test_keep_their_bytecode() -> None:
    command = [sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
    assert not sys.dont_write_bytecode


def test_objects_of_the_collection_are_not_collected_again() -> None:
    # Not beside gc.get_objects(): a failure would have pytest write out every object, 20 GB of text.
    frozen = gc.get_freeze_count()
    assert frozen > 10_000


def test_each_file_is_in_the_share_of_one_worker() -> None:
    shares = [worker_share(FILES, number, 3) for number in range(3)]
    assert sorted(path for share in shares for path in share) == sorted(FILES)
    sizes = [sum(path.stat().st_size for path in share) for share in shares]
    assert max(sizes) < 1.1 * min(sizes)


def uses_spark(text: str) -> bool:
    """Whether a test or a fixture of the file has the fixture `spark`."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return any(
        argument.arg == "spark"
        for function in functions
        if function.name.startswith("test_") or any("fixture" in ast.unparse(d) for d in function.decorator_list)
        for argument in function.args.args
    )


def test_the_files_with_spark_are_one_scope() -> None:
    files = [path for path in FILES if uses_spark(path.read_text("utf-8"))]
    assert sorted(path.relative_to(ROOT).as_posix() for path in files) == sorted(SPARK_FILES)
    assert {scope(f"{file}::test_one") for file in SPARK_FILES} == {"spark"}
    assert scope("tests/test_cli.py::test_one[a::b]") == "tests/test_cli.py"
