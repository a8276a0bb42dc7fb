"""A history's tables as Delta or Iceberg tables, by their Python writers: no jars, no Spark. Each table is replaced whole, in
one commit of its own, so that readers see the former one or the new one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.runtime.extras import require

NAMESPACE = "coterie"


class ExportError(ValueError):
    """There is no such history; the message has the command that makes one."""


def tables_in(history: Path) -> Iterator[tuple[str, Any]]:
    """Name and pyarrow dataset of each table of a history. Raises ExportError."""
    import pyarrow.dataset as ds

    from coterie.pipeline.history import tables

    if not (history / "progress.json").exists():
        raise ExportError(f"there is no history in {history}; make one with `coterie pipeline history --out {history}`")
    for name in sorted(name.lower() for name in vars(tables) if name.isupper()):
        if (history / name).exists():
            yield name, ds.dataset(history / name, format="parquet", exclude_invalid_files=True)


def export(history: Path, form: str, out: Path) -> dict[str, int]:
    """Writes all tables; returns their row counts. Raises ExportError, and ExtraMissing without the format's package."""
    out.mkdir(parents=True, exist_ok=True)
    tables = list(tables_in(history))
    write = _delta(out) if form == "delta" else _iceberg(out)
    counts: dict[str, int] = {}
    for name, dataset in tables:
        write(name, dataset)
        counts[name] = dataset.count_rows()
    return counts


def _delta(out: Path) -> Any:
    require("delta", "a Delta table")
    import deltalake

    def write(name: str, dataset: Any) -> None:
        reader = dataset.scanner().to_reader()
        deltalake.write_deltalake(str(out / name), reader, mode="overwrite", schema_mode="overwrite")

    return write


def _iceberg(out: Path) -> Any:
    require("iceberg", "an Iceberg table")
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("coterie", uri=f"sqlite:///{out.resolve() / 'catalog.db'}", warehouse=out.resolve().as_uri())
    catalog.create_namespace_if_not_exists(NAMESPACE)

    def write(name: str, dataset: Any) -> None:
        table = catalog.create_table_if_not_exists(f"{NAMESPACE}.{name}", schema=dataset.schema)
        with table.transaction() as transaction:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that there was nothing to delete
                transaction.delete("true")
            for piece in _pieces(dataset):
                transaction.append(piece)

    return write


def _pieces(dataset: Any) -> Iterator[Any]:
    """Some hundred thousand rows at a time; one empty piece for an empty table."""
    import pyarrow as pa

    empty = True
    for batch in dataset.to_batches(batch_size=500_000):
        if batch.num_rows:
            empty = False
            yield pa.Table.from_batches([batch])
    if empty:
        yield dataset.schema.empty_table()
