"""What the processes of a Spark job import: each of them begins with that, so it is most of what a small job costs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coterie.pipeline
from coterie.pipeline.columns import COLUMNS
from coterie.records.arrow_arrays import (
    arrow_array,
    batch_of_rows,
    flag_array,
    flags_of,
    listed,
    numbers_of,
    repeated_text,
)
from coterie.testing import LocalBroker

# In CPU: pandas 0.24 s, asyncio 0.05, ssl 0.01, pyarrow.compute 0.04, the member's machines 0.06.
IN_NONE = [
    "pandas",
    "pyarrow.compute",
    "asyncio",
    "ssl",
    "coterie.member.machine",
    "coterie.client.connection.cluster",
    "coterie.wire.apis",
]
ONLY_WHERE_IT_IS_PLANNED = [
    "coterie.pipeline.options.options",
    "coterie.pipeline.reading.topics",
    "coterie.pipeline.reading.batch_reader",
]
NOT_WITH_THE_SCHEMA = [
    "pyarrow",
    "numpy",
    "coterie.client",
    "coterie.records",
    "coterie.wire",
    "coterie.pipeline.reading.tasks",
]

# As Spark: a process for the schema, one that plans and pickles the reader and the ranges, one that reads.
SCHEMA = """
import json, sys
from pathlib import Path
from coterie.pipeline.source import CoterieDataSource
folder, address, schema = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
source = CoterieDataSource({"kafka.bootstrap.servers": address, "subscribe": "t"})
result = source.schema()
"""
PLAN = (
    SCHEMA
    + """
import pickle
from pyspark.sql.types import _parse_datatype_json_string
reader = source.reader(_parse_datatype_json_string(schema))
ranges = reader.partitions()
(folder / "pickled").write_bytes(pickle.dumps((source, reader, ranges)))
result = len(ranges)
"""
)
STREAM = (
    SCHEMA
    + """
import pickle
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import _parse_datatype_json_string
source.options["startingOffsets"] = "earliest"
reader = source.streamReader(_parse_datatype_json_string(schema))
start = reader.initialOffset()
end = reader.latestOffset(start, ReadAllAvailable())
ranges = reader.partitions(start, end)
(folder / "pickled").write_bytes(pickle.dumps((source, reader, ranges)))
result = len(ranges)
"""
)
TASK = """
import json, pickle, sys
from pathlib import Path
_, reader, ranges = pickle.loads((Path(sys.argv[1]) / "pickled").read_bytes())
result = sum(batch.num_rows for one in ranges for batch in reader.read(one))
"""
WRITE = (
    TASK
    + """
import asyncio
from coterie.pipeline.sink import SinkTarget, write_rows
columns = ("key", "value", "topic", "partition", "headers")
to = SinkTarget({"bootstrap.servers": sys.argv[2]}, None, columns, exactly_once=False, write_id="w")
result = asyncio.run(write_rows(to, (batch for one in ranges for batch in reader.read(one)))).records
"""
)
PRINT = "print(json.dumps([result, sorted(sys.modules)]))"
TYPES: dict[str, object] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "integer",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "integer",
    "headers": {
        "type": "array",
        "containsNull": True,
        "elementType": {
            "type": "struct",
            "fields": [
                {"name": "key", "type": "string", "nullable": True, "metadata": {}},
                {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
            ],
        },
    },
}


@pytest.mark.parametrize("plan", [PLAN, STREAM], ids=["batch", "stream"])
def test_a_process_imports_what_it_uses(plan: str, coterie_broker: LocalBroker, tmp_path: Path) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"one", b"two", b"three")
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in TYPES.items()]
    schema = json.dumps({"type": "struct", "fields": fields})
    for code, unused, expected in (
        (SCHEMA, IN_NONE + ONLY_WHERE_IT_IS_PLANNED + NOT_WITH_THE_SCHEMA, COLUMNS),
        (plan, IN_NONE, 1),
        (TASK, IN_NONE + ONLY_WHERE_IT_IS_PLANNED, 3),
        (WRITE, ["pandas", "pyarrow.compute"], 3),
    ):
        arguments = [str(tmp_path), coterie_broker.bootstrap_servers, schema]
        command = [sys.executable, "-c", code + PRINT, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        result, modules = json.loads(done.stdout)
        assert result == expected
        assert [name for name in unused if name in modules] == []


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


LISTED = {
    pa.string(): st.text(max_size=4),
    pa.binary(): st.binary(max_size=4),
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.list_(pa.string()): st.lists(st.none() | st.text(max_size=4), max_size=3),
    pa.list_(pa.int64()): st.lists(st.integers(-9, 9), max_size=3),
}
CASES = st.sampled_from(list(LISTED)).flatmap(lambda kind: st.tuples(st.just(kind), st.lists(st.none() | LISTED[kind])))


@given(CASES)
def test_listed_values_are_those_of_pyarrow(case: tuple[pa.DataType, list[object]]) -> None:
    kind, values = case
    array = listed(values, kind)
    array.validate(full=True)
    assert array.equals(pa.array(values, kind))
    schema = pa.schema([("a", kind), ("b", pa.int32())])
    batch = batch_of_rows([{"a": value} for value in values], schema)
    assert batch.equals(pa.RecordBatch.from_pylist([{"a": value} for value in values], schema=schema))


@given(st.lists(st.integers(-(2**31), 2**31 - 1)), st.integers(0, 5))
def test_arrays_and_back(values: list[int], first: int) -> None:
    flags = np.array([value % 2 == 0 for value in values], bool)
    assert flags_of(flag_array(flags)[first:]).tolist() == flags[first:].tolist()
    numbers = pa.array(values, pa.int32())
    assert numbers_of(numbers[first:]).tolist() == values[first:]
    assert numbers_of(pa.chunked_array([numbers, numbers[first:]], pa.int32())).tolist() == values + values[first:]


def test_no_task_has_pyarrow_import_pandas() -> None:
    """A quarter of a second of CPU in each worker of a job."""
    importing = re.compile(r"pa\.(array|scalar|asarray)\(|from_pylist|from_pydict|to_numpy|to_pandas|fill_null")
    folder = Path(coterie.pipeline.__file__).parent
    files = [*folder.rglob("*.py"), *(folder.parent / "records").glob("*.py")]
    lines = [f"{file.name}: {line}" for file in files for line in file.read_text().splitlines()]
    allowed = ("columnar.py:", "arrow_arrays.py: `pyarrow")  # what is rare, or read without the compiled part
    assert [line for line in lines if importing.search(line) and not line.startswith(allowed)] == []
