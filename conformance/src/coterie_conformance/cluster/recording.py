"""The requests of Apache Kafka's controller, as brokers of ours received them: recorded here, replayed by
`tests/broker/cluster/test_kafkas_controller.py`.

A broker that records is `python -m coterie_conformance.cluster.recording FILE broker ...`, where the rest is `coterie`'s
command line. `python -m coterie_conformance.cluster.recording` alone makes the recording of the tests: two brokers of Apache
Kafka, one of which controls, and two of ours, through all that makes a controller send something.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import runpy
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.client import Admin
from coterie.client.errors import KafkaError
from coterie.wire.declaration import Message
from coterie.wire.messages.brokers.leader_and_isr import LeaderAndIsrRequest
from coterie.wire.messages.brokers.stop_replica import StopReplicaRequest
from coterie.wire.messages.brokers.update_metadata import UpdateMetadataRequest
from coterie_conformance.cluster.mixed import BrokerKind, MixedCluster, mixed_cluster, wait_until
from coterie_conformance.cluster.replication_checks import create_topic, fill
from coterie_conformance.servers.coterie_process import COMMAND
from coterie_conformance.servers.kafka import CannotRun

RECORDED = Path("tests/broker/cluster/kafkas_controller.jsonl.gz")
KAFKA, OURS = (1, 2), (4, 5)
_MODULE = "coterie_conformance.cluster.recording"
_REQUESTS: dict[int, type[LeaderAndIsrRequest] | type[StopReplicaRequest] | type[UpdateMetadataRequest]] = {
    request.api_key: request for request in (LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest)
}
ControllerRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """``broker``: which of ours received it."""

    broker: int
    version: int
    request: ControllerRequest

    def to_json(self) -> str:
        """A line of a recording."""
        body = base64.b64encode(self.request.encode(self.version)).decode()
        return json.dumps([self.broker, self.request.api_key, self.version, body])

    @staticmethod
    def of_json(line: str) -> ReceivedRequest:
        """That line read."""
        broker, api_key, version, body = json.loads(line)
        request = _REQUESTS[api_key].decode(base64.b64decode(body), version)
        return ReceivedRequest(broker, version, request)


def read_recording(file: Path) -> list[ReceivedRequest]:
    """In the order in which each broker received them."""
    return [ReceivedRequest.of_json(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]


# -- a broker that records ----------------------------------------------------------------------------------------------


def recording_command(file: Path) -> list[str]:
    """The beginning of the command line of a broker that appends to the file, up to the command's options."""
    return [sys.executable, "-m", _MODULE, str(file), COMMAND[-1]]


def _record(file: Path) -> None:
    """Puts a handler that records before each of the controller's."""
    from coterie.broker.handlers import control

    for api_key in _REQUESTS:
        control.HANDLERS[api_key] = _recorded(file, control.HANDLERS[api_key])


def _recorded(file: Path, handler: Handler) -> Handler:
    def handle(broker: Services, request: ControllerRequest, call: Call) -> Message | Pending | None:
        received = ReceivedRequest(broker.cluster.node_id, call.api_version, request)
        with file.open("a") as lines:
            print(received.to_json(), file=lines)
        return handler(broker, request, call)

    return handle


# -- the story of the tests' recording ----------------------------------------------------------------------------------


async def _reassign(cluster: MixedCluster, topic: str, replicas: Sequence[int]) -> None:
    """All partitions to these brokers, each led by another."""
    targets = {
        (topic, number): [*replicas[number % len(replicas) :], *replicas[: number % len(replicas)]]
        for number in cluster.assignment(topic)
    }
    async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
        await admin.alter_partition_reassignments(targets)
    await wait_until(
        lambda: all(set(r) == set(replicas) for r in cluster.assignment(topic).values()) and cluster.are_in_sync(topic),
        f"{topic} is on {replicas}",
    )


async def _cancel(cluster: MixedCluster, topic: str, replicas: Sequence[int]) -> None:
    """Begins a reassignment, which may have ended before it is cancelled."""
    partitions = [(topic, number) for number in cluster.assignment(topic)]
    async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
        await admin.alter_partition_reassignments({partition: list(replicas) for partition in partitions})
        try:
            await admin.alter_partition_reassignments(dict.fromkeys(partitions))
        except KafkaError:
            return


async def _restart(cluster: MixedCluster, broker: int, *, killed: bool) -> None:
    end = cluster.kill if killed else cluster.stop
    await asyncio.to_thread(end, broker)
    await wait_until(lambda: not cluster.is_registered(broker), f"broker {broker} is gone")
    await asyncio.to_thread(cluster.start, broker)
    await wait_until(cluster.is_whole, f"broker {broker} is in every ISR again")


async def _story(cluster: MixedCluster) -> None:
    first, second = OURS
    await create_topic(cluster, "moved", KAFKA, 2)
    await create_topic(cluster, "mixed", [first, KAFKA[0], second], 2)
    await fill(cluster, "moved", 2)
    await fill(cluster, "mixed", 2)
    await _reassign(cluster, "moved", OURS)
    await _reassign(cluster, "moved", (second, KAFKA[1]))
    await _reassign(cluster, "moved", KAFKA)
    await _cancel(cluster, "moved", OURS)
    await _reassign(cluster, "moved", (KAFKA[1], first))
    await _restart(cluster, second, killed=False)
    await _restart(cluster, first, killed=True)
    async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
        await admin.elect_leaders()
        await admin.create_partitions("mixed", 4)
    await wait_until(lambda: len(cluster.assignment("mixed")) == 4 and cluster.is_whole(), "four partitions")
    await _restart(cluster, KAFKA[1], killed=True)
    async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
        await admin.delete_topic("mixed")
    await wait_until(lambda: not cluster.assignment("mixed"), "mixed is deleted")
    await create_topic(cluster, "mixed", [second, KAFKA[0]], 1)  # another topic of that name
    await _restart(cluster, KAFKA[0], killed=False)  # another of Kafka's controls, or one of ours


def record() -> Path:
    """Makes the recording of the tests again. Raises CannotRun, NotInTime, KafkaError."""
    kinds = dict.fromkeys(KAFKA, BrokerKind.KAFKA) | dict.fromkeys(OURS, BrokerKind.COTERIE)
    with tempfile.TemporaryDirectory(prefix="coterie-recording-") as name:
        file = Path(name) / "control.jsonl"
        settings = {"min.insync.replicas": "1"}
        with mixed_cluster(Path(name), kinds, settings, command=recording_command(file)) as cluster:
            asyncio.run(_story(cluster))
        RECORDED.write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    return RECORDED


def main() -> None:
    """The command line."""
    if len(sys.argv) > 1:
        _record(Path(sys.argv[1]))
        del sys.argv[1]
        runpy.run_module("coterie", run_name="__main__")
        return
    try:
        print(record())
    except CannotRun as reason:
        sys.exit(str(reason))


if __name__ == "__main__":
    main()
