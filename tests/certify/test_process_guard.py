"""No process of the user's program outlives a `coterie certify-client` that is ended or killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.awaiting import until_in_thread

# A program that starts another one, as npm and shell scripts do, and names both.
SCRIPT = 'sleep 600 & echo "$$ $!" > "$0.new"; mv "$0.new" "$0"; wait'


def is_running(pid: int) -> bool:
    """False for a zombie too: what adopts an orphan in a container may leave it one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc which processes run")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_program_dies_with_certify_client(number: signal.Signals, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    words = ("--story", "quiet", "--patience", "600", "--", "sh", "-c", SCRIPT, str(pids))
    command = [sys.executable, "-m", "coterie", "certify-client", *words]
    started: list[int] = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as certify:
        try:
            until_in_thread(pids.exists, "the program runs", 120)
            started = [int(pid) for pid in pids.read_text().split()]
            assert all(map(is_running, started))
            certify.send_signal(number)
            certify.wait(120)
            until_in_thread(lambda: not any(map(is_running, started)), "the program has ended", 120)
        finally:
            certify.kill()
            for pid in started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
