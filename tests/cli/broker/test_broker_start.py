"""What `coterie broker` says at its start: trouble with the data folder names the folder, an open address is warned of."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from coterie.broker.broker import Broker
from coterie.broker.handlers import MODULES
from coterie.broker.settings.listeners import Listener
from coterie.broker.storage.disk import folder_trouble
from coterie.cli import main
from coterie.cli.broker_pages import HttpPages
from coterie.cli.parts.listening import is_loopback
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.runtime.allocator import COLLECTED_AFTER
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic

MESSAGES = 44  # modules that the coordinator, of four kinds of group and their views, transactions and the logs use


def start(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "coterie", "broker", "--listen", "127.0.0.1:0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def test_kafkas_variables_are_settings_and_its_lines_tell_of_the_start() -> None:
    """Those of testcontainers' module of Java, which waits for RECOVERY to RUNNING; Python's waits for one of the others."""
    variables = {
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0,BROKER://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:1234,BROKER://inside:9093",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_NODE_ID": "7",
        "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
        "KAFKA_NUM_PARTITIONS": "3",
    }
    command = [sys.executable, "-m", "coterie", "broker", "--memory", "--environment", "--set", "num.partitions=4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | variables) as process:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().removeprefix("listening on ").strip().rpartition(":")
        started = [process.stdout.readline().strip() for _ in range(3)]
        socket = BrokerSocket(host, int(port))
        topic = MetadataRequestTopic(name="t")
        response = socket.request(MetadataRequest(topics=[topic], allow_auto_topic_creation=True))
        socket.close()
        process.terminate()
    assert started == [
        "[BrokerLifecycleManager id=7] Transitioning from RECOVERY to RUNNING.",
        "[KafkaServer id=7] started",
        "[KafkaRaftServer nodeId=7] Kafka Server started",
    ]
    assert [(one.node_id, one.host, one.port) for one in response.brokers] == [(7, "localhost", 1234)]
    assert [len(one.partitions) for one in response.topics] == [4]  # the command line's


def test_a_lone_broker_imports_what_it_needs() -> None:
    """They were 5 MB and a quarter of the time of its start."""
    command = [sys.executable, "-X", "importtime", "-m", "coterie", "broker", "--memory", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on ")
        process.terminate()
        _, imports = process.communicate(timeout=60)
    assert process.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in imports.splitlines()}
    assert "coterie.broker.groups.group_coordinator" in imported
    others = (
        "client",
        "member",
        "consuming",
        "producing",
        "zookeeper",
        "runtime.zookeeper_session",
        "rocketmq",
        "pipeline",
    )
    assert not imported & {f"coterie.{room}" for room in others}
    assert not imported & {"javaproperties", "kazoo", "http.server"}
    # Needed by the first pattern and the first compressed batch alone; 4 MB.
    assert not imported & {"re2", "cramjam"}
    # A twentieth of a start, and 4 MB.
    assert not imported & {"_ssl", "_hashlib"}
    # 2 ms.
    assert not imported & {"decimal", "difflib"}
    # 7 ms of a start, with what they import themselves.
    assert not imported & {"hashlib", "importlib.resources", "shutil", "tempfile", "zipfile"}
    # Handlers, and the messages of requests, come with the first request of their API.
    handlers = {name for name in imported if name.startswith("coterie.broker.handlers.")}
    assert handlers == {"coterie.broker.handlers.services"}
    messages = {name for name in imported if re.match(r"coterie\.wire\.messages\.\w+\.", name)}
    assert len(messages) <= MESSAGES, sorted(messages)


def test_no_cycles_are_looked_for_until_the_broker_has_started() -> None:
    """A tenth of the start's CPU time, and more where the groups have many offsets."""
    code = (
        "import gc, os, signal, sys, types\n"
        "collections = []\n"
        "gc.callbacks.append(lambda phase, _: phase == 'start' and collections.append(1))\n"
        "import coterie.cli.broker as command\n"
        "command.START_ENDS_AFTER_S = 0\n"
        "end_start = command._end_start\n"
        "def when_loaded(callback):\n"
        "    print(len(collections), gc.isenabled())\n"
        "    callback()\n"
        "async def observed(broker):\n"
        "    await end_start(types.SimpleNamespace(groups=types.SimpleNamespace(when_loaded=when_loaded)))\n"
        "    print(gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count() > 10 * len(gc.get_objects()))\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "command._end_start = observed\n"
        "sys.argv = ['coterie', 'broker', '--memory', '--listen', '127.0.0.1:0']\n"
        "from coterie.program import main\n"
        "collections.clear()\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    expected = ["0 False", f"True {COLLECTED_AFTER} True"]
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, expected), done.stderr


def test_another_command_collects_as_by_default() -> None:
    code = (
        "import gc, sys\n"
        "default = gc.get_threshold()\n"
        "import coterie.cli.wire\n"
        "coterie.cli.wire.wire.callback = lambda **_: print(gc.isenabled(), gc.get_threshold() == default)\n"
        "sys.argv = ['coterie', 'wire', 'Heartbeat']\n"
        "from coterie.program import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


@pytest.mark.parametrize(("verb", "has_ssl"), [("broker", False), ("consume", True)])
def test_asyncio_has_no_ssl_in_a_broker_alone(verb: str, has_ssl: bool) -> None:
    """Whatever else uses it there, as a driver of ZooKeeper, gets it."""
    code = (
        "import click\n"
        "from coterie.cli import main\n"
        f"assert main.get_command(click.Context(main), {verb!r})\n"
        "import asyncio.base_events, ssl\n"
        "print(asyncio.base_events.ssl is not None, ssl.create_default_context() is not None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [str(has_ssl), "True"]


def test_a_broker_that_runs_imports_the_handlers() -> None:
    """An upgrade may replace their files under it."""
    command = [sys.executable, "-v", "-m", "coterie", "broker", "--memory", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        awaited = {f"coterie.broker.handlers.{module}" for module in MODULES}
        for line in process.stderr:
            awaited.discard(line.removeprefix("import '").partition("'")[0])
            if not awaited:
                break
        process.terminate()
        process.communicate(timeout=60)
    assert not awaited


def test_each_line_of_the_log_has_its_time(tmp_path: Path) -> None:
    """A folder whose log was damaged says so, twice: a count, and what."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"x" * 100)
    command = [sys.executable, "-m", "coterie", "broker", "--data", str(tmp_path), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.terminate()
        _, log = process.communicate(timeout=60)
    assert "t-0/" in log
    for line in log.splitlines():
        assert re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d\d\d [A-Z]+ coterie\.[a-z._]+: ", line), line


def test_a_folder_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, message = start("--data", str(tmp_path / "file" / "data"))
    assert code == 1
    assert f"cannot use the data folder {tmp_path}/file/data: {tmp_path}/file is a file" in message
    assert "another --data" in message
    assert "listen" not in message


def test_a_folder_of_the_settings_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, message = start("--set", f"log.dirs={tmp_path / 'file'}")
    assert (code, f"data folder {tmp_path}/file: {tmp_path}/file is a file" in message) == (1, True), message


def test_a_folder_whose_files_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    code, message = start("--data", str(tmp_path))
    assert (code, f"{tmp_path}/.lock: Is a directory" in message, "listen" in message) == (1, True, False), message


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EROFS, "its file system is read-only"),
        (errno.EACCES, "may not write there"),
        (errno.ENOSPC, "its disk is full"),
        (errno.EMFILE, "more open files than ulimit -n allows"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_other_trouble_with_a_folder(number: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where root tests, nothing is forbidden and nothing read-only: the error is put in."""
    import os

    error = OSError(number, os.strerror(number))
    assert why in folder_trouble(tmp_path, error)
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: (_ for _ in ()).throw(error))
    done = CliRunner().invoke(main, ["broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")])
    assert done.exit_code == 1
    assert f"cannot use the data folder {tmp_path}/data" in done.output
    assert why in done.output
    assert "listen" not in done.output


def test_a_taken_address_still_names_the_address(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "coterie", "broker", "--listen", address, "--data", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"cannot listen on {address}" in done.stderr
    assert "choose another --listen" in done.stderr


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("::1", False), ("0.0.0.0", True), ("::", True)])
def test_an_http_address_beyond_loopback_is_warned_of(host: str, warned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing really listens there: the addresses are put in."""

    async def started(self: Broker, *_: object) -> tuple[str, int]:
        self.failed.set()
        self.failure = None
        return host, 9092

    async def served(self: Broker, *_: object) -> tuple[str, int]:
        return host, 8080

    async def stopped(self: Broker) -> None:
        pass

    monkeypatch.setattr(Broker, "start_at", started)
    monkeypatch.setattr(Broker, "serve_http", served)
    monkeypatch.setattr(Broker, "stop", stopped)
    monkeypatch.setattr("coterie.broker.web.http.HttpServer", lambda *_, **__: None)
    done = CliRunner().invoke(main, ["broker", "--memory", "--http", "127.0.0.1:0"])
    assert done.exit_code == 0, done.output
    warnings = [line for line in done.output.splitlines() if line.startswith("warning: ")]
    assert [line.split()[1] for line in warnings] == (["--http"] if warned else [])
    assert all("without authentication" in line for line in warnings)
    assert is_loopback(host) != warned


PEM = ["--http-tls-certificate", "{pem}", "--http-tls-key", "{pem}"]
TOKEN = ["--http-token-file", "{token}"]


@pytest.mark.parametrize(("given", "refused"), [([], True), (PEM, True), (TOKEN, True), ([*PEM, *TOKEN], False)])
def test_http_beyond_loopback_has_tls_and_a_token(
    given: list[str], refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, token = tmp_path / "both.pem", tmp_path / "token"
    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
    token.write_text("0123456789abcdef\n")
    served: list[HttpPages] = []

    async def serve(
        stop: object, settings: object, data: object, listeners: object, pages: HttpPages, *_: object
    ) -> int:
        served.append(pages)
        return 0

    monkeypatch.setattr("coterie.cli.broker._serve", serve)
    words = [word.format(pem=pem, token=token) for word in given]
    done = CliRunner().invoke(main, ["broker", "--memory", "--http", "0.0.0.0:0", *words])
    assert done.exit_code == (2 if refused else 0), done.output
    if refused:
        text = "--http 0.0.0.0:0 is beyond loopback: give --http-tls-certificate, --http-tls-key and --http-token-file"
        assert text in " ".join(done.output.split())
        assert (
            CliRunner().invoke(main, ["broker", "--memory", "--http", "0.0.0.0:0", "--insecure", *words]).exit_code == 0
        )
    (pages,) = served
    assert (pages.access.tls is not None, pages.access.token) == (
        PEM[0] in given,
        "0123456789abcdef" if TOKEN[0] in given else None,
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            ["--http", "127.0.0.1:0", "--http-tls-key", "{token}"],
            "--http-tls-certificate and --http-tls-key go together.",
        ),
        (["--http", "127.0.0.1:0", "--http-token-file", "{token}"], "must have 16 characters or more, not 5."),
        (
            ["--http", "127.0.0.1:0", "--http-tls-certificate", "{token}", "--http-tls-key", "{token}"],
            "are no certificate in",
        ),
    ],
)
def test_the_files_of_http_are_checked(given: list[str], text: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("short")
    done = CliRunner().invoke(main, ["broker", "--memory", *(word.format(token=token) for word in given)])
    assert done.exit_code == 2
    assert text in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (
            ["--listen", "0.0.0.0:9092"],
            "set listeners=SASL_SSL://0.0.0.0:9092 with sasl.enabled.mechanisms and ssl.keystore",
        ),
        (["--listen", "[::]:9092"], "set listeners=SASL_SSL://[::]:9092 with sasl.enabled.mechanisms and ssl.keystore"),
        (
            ["--set", "listeners=PLAINTEXT://127.0.0.1:1,SSL://:9093"],
            "set listener.name.ssl.ssl.client.auth=required with",
        ),
    ],
)
def test_an_address_beyond_loopback_without_authentication_is_refused(arguments: list[str], remedy: str) -> None:
    done = CliRunner().invoke(main, ["broker", "--memory", *arguments])
    assert done.exit_code == 2
    assert "is beyond loopback, and the listener" in done.output
    assert remedy in " ".join(done.output.split())
    assert "or give --insecure to let everybody in." in " ".join(done.output.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--insecure", "--listen", "0.0.0.0:9092"],
        ["--listen", "localhost:9092"],
        ["--set", "listeners=SASL_PLAINTEXT://0.0.0.0:9092"],
        ["--set", "listeners=SSL://:9092", "--set", "ssl.client.auth=required"],
    ],
)
def test_other_addresses_are_listened_on(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing really listens there."""
    started: list[list[Listener]] = []

    async def start(self: Broker, listeners: list[Listener]) -> tuple[str, int]:
        started.append(listeners)
        self.failed.set()
        return listeners[0].address

    async def stopped(self: Broker) -> None:
        pass

    monkeypatch.setattr(Broker, "start_at", start)
    monkeypatch.setattr(Broker, "stop", stopped)
    done = CliRunner().invoke(main, ["broker", "--memory", *arguments])
    assert done.exit_code == 0, done.output
    assert len(started) == 1


@pytest.mark.parametrize(
    "name", ["ssl.key.password", "listener.name.x.plain.sasl.jaas.config", "listener.name.x.ssl.keystore.key"]
)
def test_a_secret_is_not_for_the_command_line(name: str) -> None:
    done = CliRunner().invoke(main, ["broker", "--memory", "--set", f"{name}=hunter2"])
    assert done.exit_code == 2
    assert f"--set takes no secrets, because the list of processes shows them: write {name}" in " ".join(
        done.output.split()
    )
    assert "hunter2" not in done.output
