"""An attack, as the tables of `attacks` and `logins` have it, and the broker that is attacked, in a process of its own: its
address, memory, descriptors, and what its log has."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from coterie.broker.storage.disk import raise_open_file_limit
from coterie.text.addresses import format_address, parse_address
from coterie_conformance.servers.kafka import free_port

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
BROKER = ("coterie", "broker")
UNAUTHENTICATED_MS = 5_000  # of a secured broker
USER, PASSWORD = "hostile", "hostile-secret"  # who may do everything there
_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class AttackedBroker:
    """A broker. ``pid`` None where its process is not looked at (Apache Kafka's)."""

    address: tuple[str, int]
    pid: int | None = None
    log: Path | None = None
    listeners: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # by name; others are at ``address``

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
        """Open ones, but for indexes, which a log opens when it has grown, and for the logs of internal topics, which a first
        request makes (50 of `__share_group_state`). Linux only; else 0."""
        folder = Path(f"/proc/{self.pid}/fd")
        if self.pid is None or not folder.exists():
            return 0
        count = 0
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                path = os.readlink(folder / name)
                count += not path.endswith("index") and "/__" not in path
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
def coterie_target(
    folder: Path,
    settings: Mapping[str, str] = SETTINGS,
    listeners: Mapping[str, tuple[str, int]] | None = None,
    command: Sequence[str] = BROKER,
) -> Iterator[AttackedBroker]:
    """coterie's broker, its log in ``folder``; ``command`` is followed by its options."""
    folder.mkdir(parents=True, exist_ok=True)
    raise_open_file_limit()
    log = folder / "broker.log"
    whole = [sys.executable, "-m", *command, "--data", str(folder / "data")]
    properties = folder / "broker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    whole += ["--properties", str(properties)]
    if "listeners" not in settings:
        whole += ["--listen", "127.0.0.1:0"]
    with log.open("w") as out:
        process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=out, text=True)
    try:
        assert process.stdout is not None
        address = parse_address(process.stdout.readline().removeprefix("listening on "))
        yield AttackedBroker(address, process.pid, log, listeners or {})
    finally:
        process.terminate()
        started_s = time.monotonic()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"the broker did not stop within {time.monotonic() - started_s:.0f} s") from None


@contextlib.contextmanager
def secured_target(
    folder: Path, changes: Mapping[str, str] | None = None, command: Sequence[str] = BROKER
) -> Iterator[AttackedBroker]:
    """A broker with TLS, SASL and an authorizer, and a listener without them for the bystander. ``changes`` of its settings."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = folder / "broker.pem"
    trustme.CA().issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(keys)
    listeners = {name: ("127.0.0.1", free_port()) for name in ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")}
    own = {
        "listeners": ",".join(f"{name}://{format_address(*address)}" for name, address in listeners.items()),
        "ssl.keystore.location": str(keys),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.jaas.config": f'{_LOGIN_MODULE} required user_{USER}="{PASSWORD}";',
        "coterie.connections.max.unauthenticated.ms": str(UNAUTHENTICATED_MS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "auto.create.topics.enable": "false",
        "super.users": f"User:ANONYMOUS;User:{USER}",
    }
    with coterie_target(folder, SETTINGS | own | dict(changes or {}), listeners, command) as target:
        yield target


Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Attack:
    """``amount`` of something, at that listener; ``small`` of it in the tests. ``run`` may raise `BoundBrokenError`."""

    name: str
    run: Callable[[Address, int, random.Random], str]
    amount: int
    small: int
    on_kafka: bool = True  # whether it makes sense there
    listener: str = "PLAINTEXT"


class BoundBrokenError(RuntimeError):
    """The broker did not hold the bound that an attack is about."""
