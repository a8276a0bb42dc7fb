"""Cost as it grows: curves over members, connections, partitions, groups and sizes of messages, of coterie and of its peers
(Apache Kafka, kfake) in one run, one core for each broker and one for the driver.

Each broker gets one process for each axis, and the sizes in rising order. A curve ends before a size that would take too long,
or at one that the broker cannot serve, with the reason.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from coterie.certify.settling import wait_for_coordinator
from coterie.client.errors import KafkaError
from coterie.text.addresses import parse_address
from coterie_conformance.bench.beside import BROKER_CORE, DRIVER_CORE, KAFKA, KAFKA_SETTINGS, bind, bound, coterie
from coterie_conformance.bench.curves.load import AXES
from coterie_conformance.bench.curves.page import CostPoint, CurveEnd
from coterie_conformance.bench.measurement import ProcessorMeter, resident_mb
from coterie_conformance.servers.kafka import CannotRun, KafkaBroker
from coterie_conformance.servers.programs import NAME as KFAKE
from coterie_conformance.servers.programs import kfake_program

END_S = 30.0

Address = tuple[str, int]
COTERIE, APACHE = "coterie", f"Kafka {KAFKA}"
WARM_UP_FACTOR = 2  # of a size's seconds, for each kind of request
SIZE_S = 40.0  # a size that took longer is the last of its curve: the next is ten times as large
FAILURES = (KafkaError, OSError, AssertionError)  # of a load that a broker cannot carry
WITHOUT_DELAY = {KFAKE: "it has no group.initial.rebalance.delay.ms, and the first member of a crew is a group alone"}


@contextmanager
def kfake(program: Path) -> Iterator[tuple[Address, int]]:
    """A broker bound to BROKER_CORE: its address and its process id."""
    with bound(BROKER_CORE):  # the threads that Go starts at once as well
        process = subprocess.Popen([str(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield parse_address(process.stdout.readline().strip()), process.pid
    finally:
        process.terminate()
        process.wait(END_S)


Starter = Callable[[Path, int], AbstractContextManager["MeasuredBroker"]]


@dataclass(frozen=True, slots=True)
class MeasuredBroker:
    """A broker under load: its address, and the process whose costs are measured."""

    name: str
    address: tuple[str, int]
    pid: int


@contextmanager
def started_coterie(folder: Path, delay_ms: int) -> Iterator[MeasuredBroker]:
    """A coterie broker bound to its core."""
    with coterie(folder, delay_ms) as (address, process):
        yield MeasuredBroker(COTERIE, address, process.pid)


@contextmanager
def started_kafka(folder: Path, delay_ms: int) -> Iterator[MeasuredBroker]:
    """An Apache Kafka bound to its core. Raises CannotRun."""
    settings = KAFKA_SETTINGS | {"group.initial.rebalance.delay.ms": str(delay_ms)}
    broker = KafkaBroker(KAFKA, folder / "kafka", settings, {BROKER_CORE})
    try:
        broker.start()
        wait_for_coordinator(broker.address)
        yield MeasuredBroker(APACHE, broker.address, broker.pid)
    finally:
        broker.stop()


@contextmanager
def started_kfake(folder: Path, delay_ms: int) -> Iterator[MeasuredBroker]:
    """A kfake bound to its core; it keeps nothing on disk, and does not have the delay. Raises CannotRun."""
    with kfake(kfake_program()) as (address, pid):
        yield MeasuredBroker(KFAKE, address, pid)


BROKERS: dict[str, Starter] = {COTERIE: started_coterie, APACHE: started_kafka, KFAKE: started_kfake}


def curve(broker: MeasuredBroker, axis: str, sizes: Iterable[int], seconds: float) -> Iterator[CostPoint | CurveEnd]:
    """The points of one broker on one axis, and the end of a curve that ends early."""
    load, slow_s = AXES[axis].load, 0.0
    for size in sizes:
        if slow_s > SIZE_S:
            yield CurveEnd(axis, broker.name, size, f"the size before took {slow_s:.0f} s")
            return
        started_s = time.perf_counter()
        meter = ProcessorMeter(broker.pid)
        try:
            load(broker.address, size, seconds, meter)
        except FAILURES as error:
            yield CurveEnd(axis, broker.name, size, " ".join(str(error).split())[:200] or type(error).__name__)
            return
        slow_s = time.perf_counter() - started_s
        yield CostPoint(axis, broker.name, size, meter.costs | {"memory_mb": resident_mb(broker.pid)})


def growth(
    folder: Path, largest: int, seconds: float, peers: Iterable[str], axes: Iterable[str] = tuple(AXES)
) -> Iterator[CostPoint | CurveEnd]:
    """Every curve up to ``largest``; ``seconds`` of each steady load; ``peers`` are of BROKERS. Raises CannotRun where a peer
    cannot be run, or the system has no /proc."""
    if not Path("/proc/self/stat").exists():
        raise CannotRun("processor times are read from /proc; run the report on Linux")
    with ExitStack() as restored:
        if hasattr(os, "sched_setaffinity"):
            restored.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
        bind(DRIVER_CORE)
        for name in axes:
            axis = AXES[name]
            sizes = [size for size in axis.sizes if size <= largest]
            for measured in (COTERIE, *peers):
                if axis.delay_ms and measured in WITHOUT_DELAY:
                    yield CurveEnd(name, measured, sizes[0], WITHOUT_DELAY[measured])
                    continue
                with BROKERS[measured](folder / name / measured.replace(" ", "-"), axis.delay_ms) as broker:
                    axis.warm_up(broker.address, WARM_UP_FACTOR * seconds)
                    yield from curve(broker, name, sizes, seconds)
