"""The user's program as processes of their own: started, killed, frozen, and read without waiting."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from coterie.certify.client.process_guard import ProcessGuard

END_S = 10.0
_PIECE_BYTES = 65_536
ENVIRONMENT = {
    "bootstrap": "COTERIE_BOOTSTRAP_SERVERS",
    "topic": "COTERIE_TOPIC",
    "group": "COTERIE_GROUP",
    "process": "COTERIE_PROCESS",
}


def command_with(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The command's words with these values for {bootstrap}, {topic}, {group} and {process}; other braces stay."""
    words = list(command)
    for name, value in values.items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    return words


class UserProcess:
    """One process of the program, with all that it starts. ``number``: the story's. ``takes_lines``: on a standard input."""

    def __init__(
        self,
        command: Sequence[str],
        number: int,
        values: Mapping[str, str],
        log: Path,
        guard: ProcessGuard,
        *,
        takes_lines: bool = False,
    ) -> None:
        values = {**values, "process": str(number)}
        self.number, self.log, self._guard = number, log, guard
        self.is_ending = self.is_frozen = False
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command_with(command, values),
                stdin=subprocess.PIPE if takes_lines else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **{ENVIRONMENT[k]: v for k, v in values.items()}},
                start_new_session=True,
            )
        guard.add(self._process.pid)
        self._rest = b""
        for pipe in (self._process.stdout, self._process.stdin):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)

    def lines(self) -> Iterator[str]:
        """What it has printed since; never waits."""
        pipe = self._process.stdout
        while pipe is not None and not pipe.closed:
            try:
                piece = os.read(pipe.fileno(), _PIECE_BYTES)
            except BlockingIOError:
                return
            if not piece:
                return
            *whole, self._rest = (self._rest + piece).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)

    def write(self, line: str) -> bool:
        """Gives it a line; False where it takes none now."""
        pipe: IO[bytes] | None = self._process.stdin
        if pipe is None or self.is_ending or self._process.poll() is not None:
            return False
        try:
            return os.write(pipe.fileno(), f"{line}\n".encode()) > 0
        except (BlockingIOError, BrokenPipeError):
            return False

    def exit_code(self) -> int | None:
        """Of a process that has ended; None while it runs."""
        return self._process.poll()

    def last_words(self) -> str:
        """The last line of its standard error."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def freeze(self) -> None:
        """SIGSTOP."""
        self.is_frozen = True
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.is_frozen = False
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL; what it printed before can still be read."""
        self.is_ending = True
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._guard.remove(self._process.pid)

    def terminate(self) -> None:
        """SIGTERM, and the end of its input."""
        self.is_ending = True
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._signal(signal.SIGTERM)

    def close(self) -> None:
        """Kills it where it still runs, and closes its pipes."""
        self.kill()
        for pipe in (self._process.stdout, self._process.stdin):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
