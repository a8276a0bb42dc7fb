"""What Spark does not offer to a source in Python, by the interfaces that Spark's own classes name; `docs/limits.md` says what
coterie lacks therefore. A test that fails here says that a newer Spark has it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyspark
import pytest

V2 = "org/apache/spark/sql/execution/datasources/v2/python"
CONNECTOR = "org/apache/spark/sql/connector"
STREAMS = [
    f"{V2}/PythonMicroBatchStream{kind}" for kind in ("", "Base", "WithAdmissionControl", "WithTriggerAvailableNow")
]


@pytest.fixture(scope="module")
def classes() -> dict[str, bytes]:
    """The files of Spark's classes for sources in Python."""
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("spark-sql_*.jar")
    with zipfile.ZipFile(jar) as files:
        names = [*STREAMS, f"{V2}/PythonDataSourceV2", f"{V2}/PythonTable"]
        return {name: files.read(f"{name}.class") for name in names}


def test_no_stream_reports_metrics(classes: dict[str, bytes]) -> None:
    admission = f"{CONNECTOR}/read/streaming/SupportsAdmissionControl".encode()
    assert admission in classes[f"{V2}/PythonMicroBatchStreamWithAdmissionControl"], "a class names its interfaces"
    metrics = f"{CONNECTOR}/read/streaming/ReportsSourceMetrics".encode()
    assert [name for name in STREAMS if metrics in classes[name]] == []


def test_a_write_without_a_mode_is_refused(classes: dict[str, bytes]) -> None:
    """Spark creates through a provider with SupportsCatalogOptions or as a source of version 1, which Kafka's connector is."""
    of_table = classes[f"{V2}/PythonDataSourceV2"]
    assert f"{CONNECTOR}/catalog/TableProvider".encode() in of_table
    for creating in (
        f"{CONNECTOR}/catalog/SupportsCatalogOptions",
        "org/apache/spark/sql/sources/CreatableRelationProvider",
    ):
        assert creating.encode() not in of_table
