"""Written tables, read without Spark: rows for a page or a command about one group, and their number, which the files' footers
have: a job of Spark's costs 0.1 s."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def row_count(path: Path) -> int:
    """0 where there is no such table."""
    import pyarrow.dataset as ds

    return int(ds.dataset(path, format="parquet", exclude_invalid_files=True).count_rows()) if path.exists() else 0


def batches_of(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """The rows of those columns, a record batch at a time; nothing where there is no such table."""
    import pyarrow.dataset as ds

    if path.exists():
        yield from ds.dataset(path, format="parquet", exclude_invalid_files=True).to_batches(columns=list(columns))
