"""The end of the user's processes when the process that started them has died, even by SIGKILL.

`python -m` it is a process of its own that reads which process groups run: +PID and -PID, a line each. Its input ends with
the writer, and it kills the groups that are left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from types import TracebackType
from typing import Self


class ProcessGuard:
    """A context manager; its methods may be called in any thread."""

    def __enter__(self) -> Self:
        # A session of its own: a signal to all processes of the terminal does not end it before them.
        command = [sys.executable, "-m", "coterie.certify.client.process_guard"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def add(self, group: int) -> None:
        """That process group runs."""
        self._write(f"+{group}\n")

    def remove(self, group: int) -> None:
        """It has ended, and its number may be another's."""
        self._write(f"-{group}\n")

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # somebody has ended the guard
            os.write(self._process.stdin.fileno(), line.encode())


def _main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line.startswith("+") else groups.discard
        change(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    _main()
