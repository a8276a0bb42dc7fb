"""The proxy's rows of the benchmark, in a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie_conformance.proxy.overhead import proxy_rows


@pytest.mark.slow
def test_a_few_requests(tmp_path: Path) -> None:
    rows = list(proxy_rows(tmp_path, round_trips=20, seconds=0.2))
    assert [row.unit for row in rows] == ["ms", "ms", "MB/s"]
    assert rows[1].value > 0
    assert rows[2].value > 0
