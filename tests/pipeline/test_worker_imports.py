"""What the processes of a Spark job import: each of them begins with it, so it is most of what a small job costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from coterie.records.arrow_arrays import arrow_array, repeated_text
from coterie.testing import LocalBroker

# pandas: 0.24 s of CPU. pyarrow.compute: 0.04 s, and only headers need it.
NOT_IN_A_TASK = ["pandas", "pyarrow.compute"]

# As Spark: one process plans and pickles the reader and the ranges, another one reads.
PLAN = """
import pickle, sys
from pathlib import Path
from pyspark.sql.types import _parse_datatype_json_string
from coterie.pipeline.source import CoterieDataSource
schema, folder = _parse_datatype_json_string(sys.argv[1]), Path(sys.argv[2])
reader = CoterieDataSource({"kafka.bootstrap.servers": sys.argv[3], "subscribe": "t"}).reader(schema)
for name, what in (("reader", reader), ("ranges", reader.partitions())):
    (folder / name).write_bytes(pickle.dumps(what))
"""
READ = """
import json, pickle, sys
from pathlib import Path
folder = Path(sys.argv[1])
reader, ranges = (pickle.loads((folder / name).read_bytes()) for name in ("reader", "ranges"))
rows = sum(batch.num_rows for one in ranges for batch in reader.read(one))
print(json.dumps([rows, sorted(sys.modules)]))
"""
TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "integer",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "integer",
}


def run(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_task_does_not_import_what_it_does_not_use(coterie_broker: LocalBroker, tmp_path: Path) -> None:
    coterie_broker.create_topic("t", 2)
    coterie_broker.produce("t", b"one", b"two", b"three")
    fields = [{"name": n, "type": kind, "nullable": True, "metadata": {}} for n, kind in TYPES.items()]
    run(PLAN, json.dumps({"type": "struct", "fields": fields}), str(tmp_path), coterie_broker.bootstrap_servers)
    rows, modules = json.loads(run(READ, str(tmp_path)))
    assert rows == 3
    assert [name for name in NOT_IN_A_TASK if name in modules] == []


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("missing", [None, [False, True, False, False, False, True, False, False, True]])
def test_arrays_are_those_of_pyarrow(dtype: type[np.generic], missing: list[bool] | None) -> None:
    values = np.arange(18).astype(dtype)[::2]
    mask = None if missing is None else np.array(missing)
    array = arrow_array(values, missing=mask)
    array.validate(full=True)
    assert array.equals(pa.array(values, mask=mask))


def test_numbers_become_times_without_a_copy() -> None:
    values = np.array([0, 1_700_000_000_000_000], np.int64)
    array = arrow_array(values, pa.timestamp("us", tz="UTC"))
    assert array.equals(pa.array(values).cast(pa.timestamp("us", tz="UTC")))
    assert array.buffers()[1].address == values.ctypes.data


@pytest.mark.parametrize("text", ["", "flights", "Flüge"])
def test_a_repeated_text(text: str) -> None:
    assert repeated_text(text, 3).to_pylist() == [text] * 3
    assert repeated_text(text, 0).to_pylist() == []
