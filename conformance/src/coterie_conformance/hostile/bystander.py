"""A group member in a process of its own that sends a heartbeat every 0.2 s and writes down how long each response took.

    python -m coterie_conformance.hostile.bystander HOST PORT FILE

Each line of the file: when the heartbeat was sent and how long its response took, in seconds. Ends with SIGTERM.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import check
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

EVERY_S = 0.2
GROUP = "bystander"
COORDINATOR_S = 60.0
JOIN_VERSION = 3  # without a member id of its own
SESSION_TIMEOUT_MS = 300_000
SILENT_AFTER_S = 60.0


class BrokerSilentError(RuntimeError):
    """No heartbeat is answered any more."""


def main(host: str, port: int, path: Path) -> None:
    """Joins a group of one, and appends ``SENT_S LATENCY_S`` of each heartbeat to the file until the process is
    ended."""
    broker = BrokerSocket(host, port, timeout_s=600.0)
    _find_coordinator(broker)
    join = JoinGroupRequest(GROUP, SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, "", None, "consumer")
    join.protocols = [JoinGroupRequestProtocol("range", b"")]
    joined = broker.request(join, highest=JOIN_VERSION)
    check(joined.error_code)
    assignment = [SyncGroupRequestAssignment(joined.member_id, b"")]
    sync = SyncGroupRequest(GROUP, joined.generation_id, joined.member_id, assignments=assignment)
    check(broker.request(sync, highest=JOIN_VERSION).error_code)
    beat = HeartbeatRequest(GROUP, joined.generation_id, joined.member_id)
    with path.open("a") as out:
        while True:
            sent_s = time.time()
            check(broker.request(beat).error_code)
            latency_s = time.time() - sent_s
            out.write(f"{sent_s:.4f} {latency_s:.4f}\n")
            out.flush()
            time.sleep(max(0.0, EVERY_S - latency_s))


def _find_coordinator(broker: BrokerSocket) -> None:
    """Kafka makes __consumer_offsets for the first who asks for it, and is its coordinator some time later."""
    ends_s = time.monotonic() + COORDINATOR_S
    while broker.request(FindCoordinatorRequest(coordinator_keys=[GROUP])).coordinators[0].error_code:
        if time.monotonic() > ends_s:
            raise RuntimeError("there is no coordinator")
        time.sleep(0.1)
    beat = HeartbeatRequest(GROUP, 0, "nobody")
    while broker.request(beat).error_code != ErrorCode.UNKNOWN_MEMBER_ID and time.monotonic() < ends_s:
        time.sleep(0.1)


class Bystander:
    """Starts that process; `worst_s` reads its file."""

    def __init__(self, address: tuple[str, int], path: Path) -> None:
        self._path = path
        path.touch()
        command = [
            sys.executable,
            "-m",
            "coterie_conformance.hostile.bystander",
            address[0],
            str(address[1]),
            str(path),
        ]
        self._process = subprocess.Popen(command)
        self._wait_for_line(time.time())

    def _wait_for_line(self, since_s: float, limit_s: float = SILENT_AFTER_S) -> None:
        """Until a heartbeat that was sent since then is answered. Raises BrokerSilentError after ``limit_s``."""
        ends_s = time.monotonic() + limit_s
        while not self._latencies_s(since_s):
            if self._process.poll() is not None or time.monotonic() > ends_s:
                raise BrokerSilentError("the bystander's heartbeats are no longer answered")
            time.sleep(0.05)

    def _latencies_s(self, since_s: float) -> list[float]:
        lines = (line.split() for line in self._path.read_text().splitlines())
        return [float(line[1]) for line in lines if len(line) == 2 and float(line[0]) + float(line[1]) >= since_s]

    def worst_s(self, since_s: float, limit_s: float = SILENT_AFTER_S) -> float:
        """The longest wait for a response since then, that of a heartbeat after the call included. Raises
        BrokerSilentError where none is answered within ``limit_s``."""
        self._wait_for_line(time.time(), limit_s)
        return max(self._latencies_s(since_s))

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
