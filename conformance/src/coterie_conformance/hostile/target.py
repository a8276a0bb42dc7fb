"""The broker that is attacked, in a process of its own: its address, memory, descriptors, and what its log has."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coterie.broker.storage.disk import raise_open_file_limit
from coterie.text.addresses import parse_address

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "queued.max.request.bytes": "104857600",  # as docs/limits.md advises
    "coterie.connections.max.stalled.ms": "5000",
    "connections.max.idle.ms": "60000",
    "max.connections": "12000",
    "log.roll.ms": str(2**63 - 1),  # timestamps that lie begin segments, each with its descriptor, as in Apache Kafka
}
SAMPLE_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class AttackedBroker:
    """A broker. ``pid`` None where its process is not looked at (Apache Kafka's)."""

    address: tuple[str, int]
    pid: int | None = None
    log: Path | None = None

    def memory_mb(self) -> float:
        """Resident, in MB. Linux's /proc; elsewhere `ps`."""
        if self.pid is None:
            return 0.0
        status = Path(f"/proc/{self.pid}/status")
        if status.exists():
            line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
            return int(line.split()[1]) / 1024
        return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(self.pid)])) / 1024

    def descriptors(self) -> int:
        """Open ones, but for indexes, which a log opens when it has grown. Linux only; else 0."""
        folder = Path(f"/proc/{self.pid}/fd")
        if self.pid is None or not folder.exists():
            return 0
        count = 0
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                count += not os.readlink(folder / name).endswith("index")
        return count

    def tracebacks(self) -> int:
        return 0 if self.log is None else self.log.read_text(errors="replace").count("Traceback")

    def log_bytes(self) -> int:
        return 0 if self.log is None else self.log.stat().st_size


class MemoryPeak:
    """The most memory of a process within a with-block, looked at 50 times a second: ``mb``."""

    def __init__(self, target: AttackedBroker) -> None:
        self._target, self._ended = target, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.mb = target.memory_mb()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_EVERY_S):
            with contextlib.suppress(OSError, StopIteration):
                self.mb = max(self.mb, self._target.memory_mb())

    def __enter__(self) -> MemoryPeak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@contextlib.contextmanager
def coterie_target(folder: Path) -> Iterator[AttackedBroker]:
    """coterie's broker with `SETTINGS`, its log in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    raise_open_file_limit()
    log = folder / "broker.log"
    command = [sys.executable, "-m", "coterie", "broker", "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    for name, value in SETTINGS.items():
        command += ["--set", f"{name}={value}"]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=out, text=True)
    try:
        assert process.stdout is not None
        address = parse_address(process.stdout.readline().removeprefix("listening on "))
        yield AttackedBroker(address, process.pid, log)
    finally:
        process.terminate()
        started_s = time.monotonic()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"the broker did not stop within {time.monotonic() - started_s:.0f} s") from None
