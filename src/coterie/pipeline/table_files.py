"""Rows of a written table, read without Spark: for a page, or a command about one group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def rows_of(
    path: Path, group: str | None = None, columns: Sequence[str] | None = None, *, or_of_no_group: bool = False
) -> list[dict[str, Any]]:
    """All rows, or those of a group (and those of none); [] where there is no such table."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    if not path.exists():
        return []
    wanted = None if group is None else pc.field("group") == group
    if wanted is not None and or_of_no_group:
        wanted = wanted | pc.field("group").is_null()
    dataset = ds.dataset(path, format="parquet", exclude_invalid_files=True)
    rows: list[dict[str, Any]] = dataset.to_table(None if columns is None else list(columns), filter=wanted).to_pylist()
    return rows
