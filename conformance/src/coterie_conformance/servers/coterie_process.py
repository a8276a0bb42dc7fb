"""A broker of ours in a process of its own, that is killed, paused and started again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from coterie.text.addresses import format_address
from coterie_conformance.servers.kafka import CannotRun, free_port

COMMAND = [sys.executable, "-m", "coterie", "broker"]


class CoterieBroker:
    """It keeps its data and its address. What it logs is in ``log``. ``command`` is followed by the options of the command
    `broker`."""

    def __init__(self, folder: Path, settings: Mapping[str, str], command: Sequence[str] = COMMAND) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.address = "127.0.0.1", free_port()
        self.log = folder.with_name(f"{folder.name}.log")
        self._command = [*command, "--listen", format_address(*self.address), "--data", str(folder), "--verbose"]
        for name, value in settings.items():
            self._command += ["--set", f"{name}={value}"]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Returns once it listens. Raises CannotRun."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise CannotRun(f"coterie's broker did not start; its log is {self.log}")

    @property
    def pid(self) -> int:
        """The id of the broker's process."""
        assert self._process is not None
        return self._process.pid

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def pause(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """After `pause`."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """In order."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)
