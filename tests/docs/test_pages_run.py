"""Every console and Python block of the tutorial, how-to and concept pages runs, and prints what the page shows. What a
newcomer sees first: a test that runs as printed, and every extra in the table of the installation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.runtime.extras import EXTRAS
from coterie.testing.local_zookeeper import LocalZooKeeper
from tests.broker_process import BrokerProcess, free_port
from tests.docs.page_runner import (
    ADDRESS,
    CONTROL_ADDRESS,
    HTTP_ADDRESS,
    PROXY_ADDRESS,
    ZOOKEEPER_ADDRESS,
    PageRunner,
    blocks_of,
    commands_of,
    matches,
    starts_its_broker,
)

DOCS = Path(__file__).parent.parent.parent / "docs"
TUTORIAL = DOCS / "tutorial" / "index.md"
HOW_TO = sorted(path for path in (DOCS / "how-to").glob("*.md") if path.name != "index.md")
CONCEPTS = sorted(path for path in (DOCS / "concepts").glob("*.md") if path.name != "index.md")

# Why a block may be left out: the first words of its reason.
REASONS = ("needs Apache Kafka", "needs the network", "takes minutes", "a fragment")
OWN_TEST = "run by "  # and the path of a test


def runner(folder: Path, **real: str) -> PageRunner:
    """Addresses that are not given are free ones."""
    shown = {"broker": ADDRESS, "http": HTTP_ADDRESS, "zookeeper": ZOOKEEPER_ADDRESS, "proxy": PROXY_ADDRESS}
    shown |= {"control": CONTROL_ADDRESS}
    return PageRunner(folder, {shown[name]: real.get(name) or f"127.0.0.1:{free_port()}" for name in shown})


@pytest.mark.slow
def test_the_tutorial(tmp_path: Path) -> None:
    """It starts its own broker."""
    assert starts_its_broker(TUTORIAL)
    assert runner(tmp_path).run(TUTORIAL) > 8


@pytest.mark.parametrize("page", [*HOW_TO, *CONCEPTS], ids=lambda page: page.stem)
@pytest.mark.slow
def test_page(page: Path, tmp_path: Path) -> None:
    if ZOOKEEPER_ADDRESS in page.read_text():
        with LocalZooKeeper(tmp_path / "zookeeper") as zookeeper:
            runner(tmp_path, zookeeper=zookeeper.address).run(page)
        return
    if starts_its_broker(page):
        runner(tmp_path).run(page)
        return
    if not any(block.language in ("console", "python") for block in blocks_of(page) if "not run" not in block.marks):
        return
    broker = BrokerProcess(tmp_path / "broker")
    folder = tmp_path / "reader"
    folder.mkdir()
    try:
        runner(folder, broker=broker.address).run(page)
    finally:
        broker.stop()


def test_what_is_left_out_has_a_reason() -> None:
    for page in [TUTORIAL, *HOW_TO, *CONCEPTS]:
        for block in blocks_of(page):
            reason = block.marks.get("not run")
            if reason is not None and reason.startswith(OWN_TEST):
                path = reason.removeprefix(OWN_TEST).split(",")[0]
                assert (DOCS.parent / path).is_file(), f"{page.name}:{block.line}: no test {path}"
            else:
                assert reason is None or reason.startswith(REASONS), f"{page.name}:{block.line}: {reason}"


def test_the_runner_can_fail(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page_runner = runner(tmp_path)
    for block in (
        "```console\n$ echo one\ntwo\n```",
        "```python\nraise SystemExit(1)\n```",
        "```console\n$ exit 3\n0\n```",
    ):
        page.write_text(block + "\n")
        with pytest.raises(AssertionError, match=r"page\.md:1"):
            page_runner.run(page)
    page.write_text("```python\nprint(1)\n```\n<!-- output -->\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:5"):
        page_runner.run(page)
    page.write_text("<!-- repeat -->\ntext\n")
    with pytest.raises(ValueError, match="stands before no block"):
        page_runner.run(page)


def test_how_output_is_compared() -> None:
    assert matches(
        ["a  …  b", "took 3 ms at 2026-01-01 00:00:00"], ["a x  b", "took 17.5 ms at 2026-11-22 01:27:16.240"]
    )
    assert matches(["first", "…"], ["first", "second", "third"])
    assert not matches(["first"], ["first", "second"])
    assert not matches(["3 rows"], ["4 rows"])
    assert not matches(["a … c"], ["a b"])


def test_commands_are_taken_apart(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ one \\\n  two\nout\n$ cat <<'EOF'\ntext\nEOF\nshown\n```\n")
    (block,) = blocks_of(page)
    assert list(commands_of(block)) == [("one \\\n  two", ["out"]), ("cat <<'EOF'\ntext\nEOF", ["shown"])]


def test_the_test_on_the_first_page_passes(tmp_path: Path) -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    [block] = re.findall(r"```python\n(.*?)```", index, re.S)
    (tmp_path / "test_it.py").write_text(block)
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "1 passed" in done.stdout, done.stdout[-3000:]


def test_the_installation_has_every_extra() -> None:
    """And no other: an extra is named in the first cell of a row."""
    rows = re.findall(r"^\| (`[^|]*`) \|", (DOCS / "install.md").read_text("utf-8"), re.M)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(EXTRAS)
