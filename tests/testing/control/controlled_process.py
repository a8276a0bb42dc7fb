"""`coterie broker --memory --control` in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Self

from coterie.testing.control.remote_broker import RemoteBroker
from tests.broker_process import free_port


class ControlledProcess:
    """Use as a context manager. ``url``: of its control API."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "coterie", "broker", "--memory", "--control", "127.0.0.1:0", *options]
        if "--brokers" not in options:
            command += ["--listen", f"127.0.0.1:{free_port()}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        first, second = self.process.stdout.readline(), self.process.stdout.readline()
        match = re.fullmatch(r"control API on (http://127\.0\.0\.1:\d+)\n", first)
        assert match, first
        assert second.startswith("listening on 127.0.0.1:"), second
        self.url = match[1]

    def broker(self, token: str | None = None) -> RemoteBroker:
        return RemoteBroker(self.url, token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        assert self.process.wait(60) == 0
