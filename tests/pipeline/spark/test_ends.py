"""How jobs of `coterie pipeline` end, as processes of their own: Ctrl-C, and what is wrong before Spark starts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.testing import LocalBroker
from tests.awaiting import until_in_thread

PATIENCE_S = 120


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        running.create_topic("t", 2)
        running.produce("t", *(b"%d" % n for n in range(500)))
        yield running


def start(broker: LocalBroker, out: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "coterie", "pipeline", "table", "t", "--group", "g", "--out", str(out), *options]
    command += ["--bootstrap-server", broker.bootstrap_servers, "--master", "local[2]"]
    # A session of its own, so that a signal reaches all of its processes, as a terminal's Ctrl-C does.
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.slow
def test_ctrl_c_of_follow_is_an_orderly_end(broker: LocalBroker, tmp_path: Path) -> None:
    process = start(broker, tmp_path / "out", "--follow")
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("batch "):
            break
    assert lines[-1].startswith("batch "), "".join(lines)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert output.startswith("500 rows in ")
    for trace in ("Aborted", "Traceback", "Exception", "Error", "\tat "):
        assert trace not in errors


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["pipeline", *arguments])
    return result.exit_code, result.output


def test_mistakes_are_refused_before_spark_starts(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_session(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("coterie.pipeline.session.make_session", no_session)
    where = ["--group", "g", "--out", str(tmp_path), "--bootstrap-server", broker.bootstrap_servers]
    code, text = run("table", "nowhere", *where)
    assert (code, text.startswith("Error: UNKNOWN_TOPIC_OR_PARTITION: topic nowhere: it does not exist;")) == (1, True)
    code, text = run("table", "t", *where, "--kafka", "auto.offset.reset=earliest")
    assert (code, "kafka.auto.offset.reset cannot be set" in text) == (2, True)
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text('v1\n{"batchWatermarkMs":0}\n{"t":{"0":5}}')
    code, text = run("table", "t", *where, "--member")
    assert (code, "written with mode=assign and cannot be resumed with mode=group" in text) == (1, True)
    (offsets / "1").write_text('v1\n{"batchWatermarkMs":0}\n{"u":{"0":5}}')
    code, text = run("table", "t", *where)
    assert (code, "is of u, not of t" in text) == (1, True)


def stderr_of_daemon(module: str, imported: str, where: Path) -> str:
    """Of a worker's daemon that is driven as Spark drives it: of one worker whose socket is closed while it writes."""
    (where / "pyspark_writer.py").write_text(
        f"import {imported}\ndef main(infile, outfile):\n    infile.read(1)\n    outfile.write(b'the plan')\n"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(where), *sys.path]),
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": "/tmp",  # a socket's path is at most 107 bytes long
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
    }
    with subprocess.Popen(
        [sys.executable, "-m", module, "pyspark_writer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        length = int.from_bytes(process.stdout.read(4), "big")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(process.stdout.read(length))
            worker = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        # The daemon reports none.
        until_in_thread(lambda: not Path(f"/proc/{worker}").exists(), "the exit of the worker")
        process.stdin.close()  # ends the daemon
        return process.stderr.read().decode()


@pytest.mark.parametrize(
    ("module", "imported", "is_quiet"),
    [
        ("pyspark.daemon", "coterie.pipeline.source", True),
        ("coterie.pipeline.workers.worker_daemon", "json", True),
        ("pyspark.daemon", "json", False),
    ],
)
def test_a_worker_whose_socket_is_closed_leaves_no_traceback(
    module: str, imported: str, is_quiet: bool, tmp_path: Path
) -> None:
    """Spark plans with PySpark's daemon and runs tasks with ours. The last case shows that PySpark's prints one otherwise."""
    errors = stderr_of_daemon(module, imported, tmp_path)
    assert ("BrokenPipeError" in errors, "Traceback" in errors) == (not is_quiet, not is_quiet), errors


@pytest.mark.slow
def test_a_batch_read_that_ends_early_leaves_no_traceback_and_no_files(broker: LocalBroker, tmp_path: Path) -> None:
    """PySpark's daemon prints one of each worker whose socket Spark has closed."""
    code = (
        "import sys\n"
        "from coterie.pipeline.session import make_session\n"
        "spark = make_session('local[2]', short=True)\n"
        "options = {'kafka.bootstrap.servers': sys.argv[1], 'subscribe': 't', 'minPartitions': '4'}\n"
        "for _ in range(5):\n"
        "    spark.read.format('coterie').options(**options).load().limit(1).collect()\n"
        "print(spark.conf.get('spark.local.dir'))\n"
        "spark.stop()\n"
    )
    command = [sys.executable, "-c", code, broker.bootstrap_servers]
    env = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert "BrokenPipeError" not in done.stderr
    assert Path(done.stdout.strip()).parent == tmp_path
    assert not list(tmp_path.glob("coterie-spark-*"))
