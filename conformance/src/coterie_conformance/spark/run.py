"""Spark's own Kafka connector on our broker: it reads, writes and streams there, what it reads equals what our source reads,
every option does the same in both (`spark_cases`), and their rows/s stand beside each other, from the same topic.

The connector runs with Spark 3.5.3 (Scala 2.12) in an environment of its own, made the first time: of the connector for
Scala 2.13 a part, spark-token-provider-kafka, was not to be had where this was written, for no version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie_conformance.servers.kafka import CannotRun, cache_folder, maven_jars
from coterie_conformance.spark.cases import CASES
from coterie_conformance.spark.connector import BETWEEN, PARTITIONS, ROUNDS
from coterie_conformance.spark.options import OURS, THEIRS, as_dict, compare, make_topics

PEER_SPARK = "3.5.3"
RECORDS = 4_000_000
PATIENCE_S = 900
_NEEDED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
Report = Callable[[str, str], None]


def connector_jars() -> str:
    """The jars that pyspark lacks. Raises CannotRun."""
    folder = maven_jars(f"spark-kafka-{PEER_SPARK}", [("org.apache.spark", "spark-sql-kafka-0-10_2.12", PEER_SPARK)])
    return ",".join(sorted(str(jar) for jar in folder.glob("*.jar") if jar.name.startswith(_NEEDED)))


def peer_python() -> Path:
    """The Python of an environment that has that Spark, made the first time. Raises CannotRun."""
    cache = cache_folder() / f"pyspark-{PEER_SPARK}"
    python = cache / "bin" / "python"
    if not (cache / "complete").exists():
        for command in (
            [sys.executable, "-m", "venv", str(cache)],
            [str(python), "-m", "pip", "install", "-q", f"pyspark=={PEER_SPARK}", "setuptools"],
        ):
            if subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL).returncode:
                raise CannotRun(f"pyspark {PEER_SPARK} could not be installed into {cache}")
        (cache / "complete").touch()
    return python


def run_spark(address: str, fill: Callable[[str, int, int], None], folder: Path, report: Report) -> dict[str, Any]:
    """``fill(topic, partitions, records)`` makes and fills a topic of 100-byte values. Raises CannotRun."""
    from coterie.pipeline.session import make_session

    python, jars = peer_python(), connector_jars()
    fill("checked", 3, 9_000)
    fill("measured", PARTITIONS, RECORDS)
    for topic in ("exact", "written", "streamed"):
        fill(topic, 2, 0)
    spark = make_session("local[2]", "coterie-conformance", folder / "spark")
    try:
        _write_exactly_once(spark, address)
        theirs = _connector(python, address, folder, jars)
        options = compare(spark, address, folder / "ours", _connector_results(python, address, folder, jars), report)
        checks = {name: _checked(report, name, check, spark, address, folder) for name, check in _CHECKS.items()}
        ours = _our_rates(spark, address, folder)
    finally:
        spark.stop()
    rates = [
        {"sink": s, "ours": round(ours[s]), "theirs": round(theirs[s]), "ratio": round(ours[s] / theirs[s], 2)}
        for s in ours
    ]
    return {"checks": checks, "options": options, "rates": rates, "peer": f"Spark {PEER_SPARK}"}


def _connector_results(python: Path, address: str, folder: Path, jars: str) -> list[dict[str, Any]]:
    """The connector's result for each case of `spark_cases`, in their order. Raises CannotRun."""
    make_topics(address, (OURS, THEIRS))
    (folder / "cases.txt").write_text(repr([as_dict(case) for case in CASES]))
    run_on(python, _script("case_runner.py"), address, str(folder), jars)
    results: list[dict[str, Any]] = json.loads((folder / "connector.json").read_text())
    return results


def _connector(python: Path, address: str, folder: Path, jars: str) -> dict[str, float]:
    output = run_on(python, _script("connector.py"), address, str(folder), jars, str(RECORDS))
    rates: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    return rates


def _script(name: str) -> Path:
    """One of this folder."""
    return Path(__file__).with_name(name)


def run_on(python: Path, script: Path, *arguments: str) -> str:
    """Runs a script under that Python's Spark; returns its output. Raises CannotRun."""
    command = [str(python), str(script), *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    environment |= {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment)
    except subprocess.TimeoutExpired as error:
        raise CannotRun(f"Spark's connector did not end within {PATIENCE_S} s") from error
    if done.returncode:
        raise CannotRun(f"Spark's connector failed: {done.stderr.strip().splitlines()[-1][:300]}")
    return done.stdout


def _checked(report: Report, name: str, check: Callable[[Any, str, Path], str], *given: Any) -> bool:
    try:
        wrong = check(*given)
    except Exception as error:
        wrong = str(error).splitlines()[0]
    report(f"Spark's connector, {name}", wrong)
    return not wrong


def _read(spark: Any, address: str, topic: str, **more: str) -> Any:
    options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest", **more}
    return spark.read.format("coterie").options(**options).load()


def _same(theirs: Any, ours: Any, rows: int) -> str:
    if theirs.schema.simpleString() != ours.schema.simpleString():
        return f"the schema is {ours.schema.simpleString()}, theirs {theirs.schema.simpleString()}"
    different = theirs.exceptAll(ours).count() + ours.exceptAll(theirs).count()
    return f"{different} rows differ" if different or ours.count() != rows else ""


def _every_row(spark: Any, address: str, folder: Path) -> str:
    ours = _read(spark, address, "checked", includeHeaders="true")
    return _same(spark.read.parquet(str(folder / "checked")), ours, 9_000)


def _between(spark: Any, address: str, folder: Path) -> str:
    ours = _read(spark, address, "checked", **BETWEEN)
    return _same(spark.read.parquet(str(folder / "between")), ours, 45 + 9 + 2_993)


def _written(spark: Any, address: str, _: Path) -> str:
    wanted = {(f"k{n}".encode(), f"v{n}".encode(), n % 2) for n in range(2_000)}
    rows = _read(spark, address, "written").select("key", "value", "partition").collect()
    right = len(rows) == 2_000 and {(bytes(r.key), bytes(r.value), r.partition) for r in rows} == wanted
    return "" if right else "what it wrote does not come back"


def _streamed(spark: Any, address: str, _: Path) -> str:
    count = _read(spark, address, "streamed").count()
    return "" if count == 9_000 else f"{count} rows of 9,000"


def _write_exactly_once(spark: Any, address: str) -> None:
    options = {"kafka.bootstrap.servers": address, "topic": "exact", "exactlyOnce": "true"}
    spark.range(500).selectExpr("cast(cast(id as string) as binary) as value").write.format("coterie").mode(
        "append"
    ).options(**options).save()


def _committed(spark: Any, address: str, folder: Path) -> str:
    ours = _read(spark, address, "exact", **{"kafka.isolation.level": "read_committed"})
    return _same(spark.read.parquet(str(folder / "exact")), ours, 500)


_CHECKS: dict[str, Callable[[Any, str, Path], str]] = {
    "every row, header and column as ours": _every_row,
    "between offsets": _between,
    "what our sink wrote in transactions, as committed": _committed,
    "writes": _written,
    "streams in, out and over a restart": _streamed,
}


def _our_rates(spark: Any, address: str, folder: Path) -> dict[str, float]:
    """Rows/s, the best of three, as the connector's."""
    rates: dict[str, float] = {}
    for sink in ("noop", "parquet"):
        for _ in range(ROUNDS):
            writer = _read(spark, address, "measured").write.mode("overwrite").format(sink)
            started_s = time.perf_counter()
            writer.save() if sink == "noop" else writer.save(str(folder / "ours"))
            rates[sink] = max(rates.get(sink, 0.0), RECORDS / (time.perf_counter() - started_s))
    return rates
