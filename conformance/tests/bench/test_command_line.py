"""The part command-line of the benchmark, on a small file: what each tool consumes is what it produced."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coterie_conformance.bench.command_line import KAFKA, Tool, _costs, _coterie, _file_of, _kcat, command_line


@pytest.mark.parametrize("tool", [_coterie, _kcat], ids=["coterie", "kcat"])
def test_the_lines_come_back(tmp_path: Path, tool: Tool) -> None:
    if tool is _kcat and not shutil.which("kcat"):
        pytest.skip("kcat is not installed")
    for cost in _costs(tmp_path, _file_of(tmp_path, 1_000), 1_000, tool):
        assert cost.wall_s > 0
        assert cost.processor_s > 0


def test_a_tool_that_loses_lines_is_noticed(tmp_path: Path) -> None:
    def loses(server: str, topic: str) -> tuple[list[str], list[str]]:
        produce, consume = _coterie(server, topic)
        return produce, ["10" if word == "LINES" else word for word in consume]

    with pytest.raises(RuntimeError, match="other lines"):
        _costs(tmp_path, _file_of(tmp_path, 1_000), 1_000, loses)


def test_a_peer_that_is_not_here_is_a_line_and_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    rows = list(command_line(tmp_path / "command-line", lines=1_000, rounds=1))
    assert [(row.name, row.peer, row.ratio) for row in rows] == [
        (f"{verb} 1,000 lines{what}", "", None) for verb in ("produce", "consume") for what in ("", ", processor")
    ]
    kafka, kcat = capsys.readouterr().err.splitlines()
    assert kafka == (
        f"without the console tools of Kafka {KAFKA}: java is not on the PATH; "
        "on Debian: apt-get install default-jre-headless maven"
    )
    assert kcat == "without kcat: it is not on the PATH; on Debian: apt-get install kcat"
