"""A figure of the benchmark, and the broker process that it is measured on."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coterie.text.addresses import parse_address

SECONDS = 2.5
IDLE_AFTER_S = 2.0  # a second after its start, a broker imports the handlers of all requests
STOPPED_WITHIN_S = 120  # a hundred thousand partitions are closed meanwhile


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure. ``aim`` is what we mean to reach, or what ``peer`` reached; ``ratio`` above 1 is better than that."""

    name: str
    value: float
    unit: str
    aim: float | None = None
    lower_is_better: bool = False
    peer: str = ""

    @property
    def ratio(self) -> float | None:
        if self.aim is None or not self.value:
            return None
        return self.aim / self.value if self.lower_is_better else self.value / self.aim


@contextlib.contextmanager
def broker(
    data: Path | None = None, initial_delay_ms: int = 0, settings: Sequence[str] = (), properties: Path | None = None
) -> Iterator[tuple[tuple[str, int], subprocess.Popen[str]]]:
    """A broker process and its address. ``properties``: a file with its listeners and with settings that are secret."""
    command = [sys.executable, "-m", "coterie", "broker"]
    command += ["--listen", "127.0.0.1:0"] if properties is None else ["--properties", str(properties)]
    command += ["--memory"] if data is None else ["--data", str(data)]
    delay = f"group.initial.rebalance.delay.ms={initial_delay_ms}"
    for setting in (delay, "max.connections=20000", "log.segment.bytes=268435456", *settings):
        command += ["--set", setting]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = parse_address(process.stdout.readline().removeprefix("listening on "))
        yield address, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOPPED_WITHIN_S)


def idle_mb(pid: int) -> float:
    """Resident memory of a broker that is at rest, and so has imported the handlers of all requests."""
    time.sleep(IDLE_AFTER_S)
    return resident_mb(pid)


def resident_mb(pid: int) -> float:
    """Resident memory of a process, in MB (Linux's /proc; elsewhere `ps`)."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmRSS"))
        return int(line.split()[1]) / 1024
    return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)])) / 1024


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, by the clock that Linux has for each (clock_getcpuclockid of POSIX): in nanoseconds,
    with the threads that have ended, of which a JVM has some while it compiles."""
    return time.clock_gettime(~pid << 3 | 2)


@dataclass(slots=True)
class Window:
    """The part of a load that counts: ``begin`` is called at its start, ``end`` with the number of units that were done."""

    begin: Callable[[], None] = lambda: None
    end: Callable[[float], None] = lambda units: None


NO_WINDOW = Window()


@dataclass(slots=True)
class ProcessorMeter:
    """What work costs a process: its processor time by unit, in µs, under each measure's name with `_us`."""

    pid: int
    costs: dict[str, float] = field(default_factory=dict)
    _begun_s: float = 0.0

    def begin(self) -> None:
        """Work that counts begins."""
        self._begun_s = cpu_seconds(self.pid)

    def end(self, name: str, units: float) -> None:
        """It has ended, and was of so many units."""
        self.costs[f"{name}_us"] = (cpu_seconds(self.pid) - self._begun_s) * 1e6 / max(units, 1)

    def window(self, name: str) -> Window:
        """A window whose work is measured under that name."""
        return Window(self.begin, lambda units: self.end(name, units))
