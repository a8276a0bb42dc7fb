"""Traces do not depend on the order of hashes, and a set that is iterated over is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie_conformance.cli import main

A_SET_DECIDES = """
from dataclasses import replace

from coterie_conformance.stories import story

draw_plan = story.draw_plan
first = next(iter({"one", "two", "three", "four"}))
story.draw_plan = lambda *given, **more: replace(draw_plan(*given, **more), readers=len(first) - 2)
"""
HASHES = ["stories", "--hashes", "3", "--seeds", "3", "--minutes", "0.02"]


def test_the_same_seed_has_the_same_trace_in_every_process() -> None:
    result = CliRunner().invoke(main, HASHES)
    assert result.exit_code == 0, result.output
    assert "3 seeds have the same traces in 3 processes" in result.output


def test_a_set_that_is_iterated_over_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(A_SET_DECIDES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    result = CliRunner().invoke(main, HASHES)
    assert result.exit_code == 1
    assert "seed 0 has another trace" in result.output
