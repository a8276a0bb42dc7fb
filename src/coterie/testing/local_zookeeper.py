"""A real ZooKeeper on loopback: the server that comes with PySpark's jars, in a process of its own, ended by who began it.

    with LocalZooKeeper(folder) as zookeeper:
        zookeeper.address

Needs a Java runtime and PySpark (the extra `spark`).
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from pathlib import Path

from coterie.pipeline.session import java_runtime
from coterie.testing.argument_checks import checked_arguments

START_S = 60.0
_QUIET = """rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
"""


@checked_arguments
class LocalZooKeeper:
    """``tick_ms``: the server's tickTime; sessions may not be shorter than two. ``port``: 0 is any free one. ``outlives``: it
    goes on when the process that started it ends, or gets an interrupt of its terminal. Raises JavaMissing, or RuntimeError
    with the server's log where it does not start."""

    def __init__(self, folder: Path, tick_ms: int = 500, port: int = 0, *, outlives: bool = False) -> None:
        self._folder, self._tick_ms, self.port, self._outlives = folder, tick_ms, port or _free_port(), outlives
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT, on the loopback interface."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> LocalZooKeeper:
        """Also after `kill`: on the same port, with the data that is there."""
        java = java_runtime()
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "zoo.cfg"
        config.write_text(
            f"dataDir={self._folder / 'data'}\ntickTime={self._tick_ms}\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
        )
        (self._folder / "log4j2.properties").write_text(_QUIET)
        command = [
            str(java),
            "-Xmx256m",
            f"-Dlog4j2.configurationFile={(self._folder / 'log4j2.properties').as_uri()}",
            "-cp",
            f"{_jars()}/*",
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(config),
        ]
        log = self._folder / "zookeeper.log"
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=self._outlives
            )
        self._wait(log)
        return self

    def _wait(self, log: Path) -> None:
        end_s = time.monotonic() + START_S
        assert self.process is not None
        while time.monotonic() < end_s and self.process.poll() is None:
            if is_serving(self.port):
                return
            time.sleep(0.1)
        has_ended = self.process.poll() is not None
        self.stop()
        if has_ended:
            raise RuntimeError(f"ZooKeeper did not start: {log.read_text(errors='replace')[-2000:].strip() or log}")
        raise RuntimeError(f"ZooKeeper did not respond within {START_S:g} s; its log is {log}")

    def stop(self) -> None:
        """In order, so that its log is whole; by force after 20 s."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """SIGKILL: what it had written stays."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> LocalZooKeeper:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def is_serving(port: int) -> bool:
    """Whether the ZooKeeper at ``port`` of the loopback interface opens sessions. Between its bind and its first response to
    ``srvr`` by "not currently serving requests", and leaves some of the clients that request a session without any response."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
        connection.sendall(b"srvr")
        return connection.makefile("rb").readline().startswith(b"Zookeeper version")
    return False


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _jars() -> Path:
    try:
        import pyspark
    except ImportError:
        raise RuntimeError("ZooKeeper's jar comes with PySpark: pip install 'coterie[spark]'") from None
    return Path(pyspark.__file__).parent / "jars"
