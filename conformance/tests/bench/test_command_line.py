"""The part command-line of the benchmark, on a small file: what each tool consumes is what it produced."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coterie_conformance.bench.command_line import Tool, _coterie, _file_of, _kcat, _seconds


@pytest.mark.parametrize("tool", [_coterie, _kcat], ids=["coterie", "kcat"])
def test_the_lines_come_back(tmp_path: Path, tool: Tool) -> None:
    if tool is _kcat and not shutil.which("kcat"):
        pytest.skip("kcat is not installed")
    produced_s, consumed_s = _seconds(tmp_path, _file_of(tmp_path, 1_000), 1_000, tool)
    assert produced_s > 0
    assert consumed_s > 0


def test_a_tool_that_loses_lines_is_noticed(tmp_path: Path) -> None:
    def loses(server: str, topic: str) -> tuple[list[str], list[str]]:
        produce, consume = _coterie(server, topic)
        return produce, ["10" if word == "LINES" else word for word in consume]

    with pytest.raises(RuntimeError, match="other lines"):
        _seconds(tmp_path, _file_of(tmp_path, 1_000), 1_000, loses)
