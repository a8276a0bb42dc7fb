"""Records of consumer groups written by Apache Kafka itself: a segment of its `__consumer_offsets`, made by a short story.

`python -m tests.coordinator.kafka_records` starts Kafka (its jars by `coterie_conformance.servers.kafka`) and records again.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from coterie.assignors.blobs import encode_subscription
from coterie.certify.settling import wait_for_coordinator
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.wire.declaration import Message
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.wire.messages.groups.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from coterie_conformance.servers.kafka import java, running

VERSION = "4.4.0"
RECORDED = Path(__file__).parent / "data" / f"consumer_groups_{VERSION}.log"
TOPICS = {"orders": 3, "payments": 2}
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


class Members:
    """Members of groups of the consumer protocol by what a subclass sends."""

    pause_s = 0.0  # before each heartbeat of `follow`

    def send(self, group_id: str, member_id: str, epoch: int, **fields: Any) -> Any:
        raise NotImplementedError

    def join(self, group_id: str, member_id: str, **fields: Any) -> Any:
        return self.send(group_id, member_id, 0, rebalance_timeout_ms=60_000, topic_partitions=[], **fields)

    def follow(self, group_id: str, member_id: str, before: Any) -> Any:
        """Applies each assignment and reports it, until none has come for a while."""
        response, quiet = before, 0
        owned = response.assignment.topic_partitions if response.assignment else []
        while quiet < 3:
            time.sleep(self.pause_s)
            report = owned if response.assignment is not None else None
            response = self.send(group_id, member_id, response.member_epoch, topic_partitions=report)
            quiet = 0 if response.assignment is not None else quiet + 1
            owned = response.assignment.topic_partitions if response.assignment else owned
        return response


class Heartbeats(Members):
    """A connection for ConsumerGroupHeartbeat, which clients here do not choose by its version."""

    pause_s = 0.1

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, 30)
        self._stream = self._socket.makefile("rb")

    def send(self, group_id: str, member_id: str, epoch: int, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(group_id, member_id, epoch, **fields)
        self._socket.sendall(encode_request(1, "recorder", request, 1))
        (size,) = struct.unpack(">I", self._stream.read(4))
        response = decode_response(ConsumerGroupHeartbeatResponse, self._stream.read(size), 1)
        assert not response.error_code, (response.error_code, response.error_message)
        return response

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def member_id(number: int) -> str:
    return str(uuid.UUID(int=number))


def _story(address: tuple[str, int]) -> None:
    beats, plain = Heartbeats(address), BrokerSocket(*address)
    described = plain.request(MetadataRequest([MetadataRequestTopic(name=name) for name in TOPICS])).topics
    ids = {t.name: t.topic_id for t in described}
    one, two, three, four, five = (member_id(n) for n in range(1, 6))
    # Two members, one static: one revokes for the other, which leaves again.
    names = sorted(TOPICS)
    joined = beats.join("crew", one, subscribed_topic_names=names, instance_id="i1", rack_id="r1")
    joined = beats.follow("crew", one, joined)
    second = beats.join("crew", two, subscribed_topic_names=names, server_assignor="range")
    joined = beats.follow("crew", one, joined)
    second = beats.follow("crew", two, second)
    _commit(plain, "crew", one, joined.member_epoch, OffsetCommitRequestTopic(topic_id=ids["orders"]), 10)
    _commit(plain, "simple", "", -1, OffsetCommitRequestTopic(name="orders"), 9)
    beats.send("crew", two, -1)
    joined = beats.follow("crew", one, joined)
    beats.send("crew", one, -2, instance_id="i1")
    # A regular expression, which is resolved after the first heartbeat.
    joined = beats.join("patterns", three, subscribed_topic_regex="or.*|p.*s", server_assignor="uniform")
    joined = beats.follow("patterns", three, joined)
    beats.send("patterns", three, -1)
    plain.request(DeleteGroupsRequest(["patterns"]))
    # A member of the classic protocol beside one of the new.
    beats.follow("mixed", four, beats.join("mixed", four, subscribed_topic_names=["orders"]))
    protocols = [JoinGroupRequestProtocol("range", encode_subscription(["orders", "payments"]))]
    first = plain.request(JoinGroupRequest("mixed", 45_000, 60_000, "", None, "consumer", protocols), highest=9)
    plain.request(JoinGroupRequest("mixed", 45_000, 60_000, first.member_id, None, "consumer", protocols), highest=9)
    beats.join("empty", five, subscribed_topic_names=[])
    beats.close()
    plain.close()


def _commit(
    plain: BrokerSocket, group: str, member: str, epoch: int, topic: OffsetCommitRequestTopic, version: int
) -> None:
    topic.partitions = [OffsetCommitRequestPartition(0, 42, 7, committed_metadata="note")]
    request: Message = OffsetCommitRequest(group, epoch, member, None, topics=[topic])
    response = plain.request(request, highest=version)
    assert not any(p.error_code for t in response.topics for p in t.partitions), response


def _share_group(address: tuple[str, int]) -> None:
    """A few seconds of Kafka's console consumer for share groups."""
    server = f"{address[0]}:{address[1]}"
    main = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    command = java(VERSION, main, "--bootstrap-server", server, "--topic", "orders", "--group", "sharers")
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, timeout=15, stdin=subprocess.DEVNULL, check=False)


def record() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with running(VERSION, Path(folder), SETTINGS) as address:
            plain = BrokerSocket(*address)
            created = [CreatableTopic(name, count, 1) for name, count in TOPICS.items()]
            plain.request(CreateTopicsRequest(created))
            plain.close()
            wait_for_coordinator(address)
            _story(address)
            _share_group(address)
        RECORDED.parent.mkdir(exist_ok=True)
        shutil.copy(Path(folder) / "data/__consumer_offsets-0/00000000000000000000.log", RECORDED)


if __name__ == "__main__":
    record()
