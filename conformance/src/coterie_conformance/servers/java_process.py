"""A Java program in a process of its own, that is killed and started again."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from coterie_conformance.servers.kafka import CannotRun, end


def need_javac() -> None:
    """Raises CannotRun."""
    if shutil.which("javac") is None:
        raise CannotRun("javac is not on the PATH; on Debian: apt-get install default-jdk-headless")


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
