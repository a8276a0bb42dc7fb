"""The observer's row of the benchmark, on a few groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie_conformance.bench.observer import observer


@pytest.mark.slow
def test_a_small_cluster(tmp_path: Path) -> None:
    rows = list(observer(tmp_path, groups=100, commits=5_000))
    assert len(rows) == 7
    assert all(row.value > 0 for row in rows[1:4])
    assert rows[4].value < rows[5].value  # it reads before it has described every group
