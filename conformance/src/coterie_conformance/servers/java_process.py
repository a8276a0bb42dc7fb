"""A Java program: compiled, and in a process of its own that is killed and started again."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from coterie_conformance.servers.kafka import CannotRun, end

BUILD_LIMIT_S = 900.0


def java_program(
    source: Path, lib: Path, folder: Path, *, heap: str = "256m", log_level: str = "warn", options: Sequence[str] = ()
) -> list[str]:
    """Compiles a program of one file into ``folder`` against the jars in ``lib``; returns its command. Raises CannotRun."""
    if shutil.which("javac") is None:
        raise CannotRun("javac is not on the PATH; on Debian: apt-get install default-jdk-headless")
    folder.mkdir(parents=True, exist_ok=True)
    command = ["javac", "-cp", f"{lib}/*", "-d", str(folder), str(source)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=BUILD_LIMIT_S
        )
    except subprocess.TimeoutExpired as late:
        raise CannotRun(f"{' '.join(command)}: no end within {BUILD_LIMIT_S:g} s") from late
    if done.returncode:
        raise CannotRun(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()[-300:]}")
    quiet = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
    return ["java", f"-Xmx{heap}", "-XX:TieredStopAtLevel=1", *options, quiet, "-cp", f"{folder}:{lib}/*", source.stem]


class JavaProcess:
    """``command`` is its command line; what it prints goes to the end of ``log``."""

    def __init__(self, command: list[str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._command, self._log = command, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Also after `kill`."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """In order where it can."""
        if self._process is not None:
            end([self._process])
