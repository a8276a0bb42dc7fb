"""Random requests of one group, sent to Apache Kafka 4.3.0 and to a shard here, response by response.

`python -m tests.coordinator.consumer.beside_kafka [FIRST_SEED [STORIES]]` starts Kafka (its jars by
`coterie_conformance.servers.kafka`), and prints each difference with the steps before it; the exit status is 1 if there is
any. Members are of the consumer protocol, some of them static, and now and then of the classic one; the assignor is `range`,
which is exact.
"""

from __future__ import annotations

import random
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from coterie.assignors.blobs import decode_assignment, encode_subscription
from coterie.certify.settling import wait_for_coordinator
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.views.consumer_group import describe_consumer_group
from coterie.coordinator.write_queue import drive
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from coterie_conformance.servers.kafka import running
from tests.coordinator.kafka_records import SETTINGS, VERSION

TOPICS = {"t": 4, "u": 3}
VERSIONS: dict[type, tuple[int, type]] = {
    ConsumerGroupHeartbeatRequest: (1, ConsumerGroupHeartbeatResponse),
    ConsumerGroupDescribeRequest: (1, ConsumerGroupDescribeResponse),
    JoinGroupRequest: (5, JoinGroupResponse),
    SyncGroupRequest: (5, SyncGroupResponse),
    HeartbeatRequest: (4, HeartbeatResponse),
    LeaveGroupRequest: (5, LeaveGroupResponse),
    OffsetCommitRequest: (9, OffsetCommitResponse),
}


class Kafka:
    """A connection on which this program chooses the versions."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, 30)
        self._stream = self._socket.makefile("rb")

    def request(self, request: Any) -> Any:
        version, response = VERSIONS[type(request)]
        self._socket.sendall(encode_request(1, "judge", request, version))
        (size,) = struct.unpack(">I", self._stream.read(4))
        return decode_response(response, self._stream.read(size), version)


class Here:
    """A shard without a log."""

    def __init__(self, topics: TopicsImage) -> None:
        self.topics, self.now_ms = topics, 1_000_000
        self.shard = Shard(
            CoordinatorConfig(group_consumer_assignment_interval_ms=0, group_initial_rebalance_delay_ms=0)
        )
        self.response: Any = None

    def request(self, request: Any, fresh_id: str) -> Any:
        self.now_ms += 1
        version, _ = VERSIONS[type(request)]
        if isinstance(request, ConsumerGroupDescribeRequest):
            group_id, assignors = request.group_ids[0], self.shard.config.consumer_group_assignors
            described = describe_consumer_group(self.shard.group(group_id), group_id, self.topics, assignors)
            return ConsumerGroupDescribeResponse(groups=[described])
        ctx = Context(self.now_ms, "token", fresh_id, version, "judge", "/127.0.0.1", self.topics)
        self.response = None
        drive(self.shard, self.shard.decide(request, ctx), lambda decisions: None, self._committed)
        return self.response

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for reply in decision.outcome.replies:
            if reply.token == "token":
                self.response = reply.response


class Story:
    """A few members, some of whose requests are wrong."""

    def __init__(self, seed: int, kafka: Kafka, here: Here) -> None:
        self.rng, self.kafka, self.here = random.Random(seed), kafka, here
        self.group = f"story-{seed}-{time.time_ns()}"
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, list[TopicPartitions]] = {}
        self.statics = {name: f"i-{name}" for name in "abcd" if self.rng.random() < 0.4}
        self.ids: dict[str, str] = {}
        self.classic: dict[str, int] = {}  # member id -> generation
        self.lines: list[str] = []
        self.codes: Counter[str] = Counter()  # the requests with their error codes

    def run(self, steps: int) -> str | None:
        """The first difference."""
        for _ in range(steps):
            request = self._next()
            theirs = self.kafka.request(request)
            fresh_id = getattr(theirs, "member_id", None) or "none"
            ours = self.here.request(request, fresh_id)
            self.lines.append(f"{request}\n      Kafka: {theirs}\n      here:  {ours}")
            if comparable(ours) != comparable(theirs):
                return "\n".join(self.lines[-7:])
            self.codes[f"{type(request).__name__[:-7]} {error_of(code_of(theirs)).name}"] += 1
            self._learn(request, theirs)
        return None

    def _next(self) -> Any:
        rng = self.rng
        kind = rng.choices(["join", "beat", "leave", "away", "commit", "describe", "classic"], [3, 9, 1, 1, 3, 2, 6])[0]
        name = rng.choice("abcd")
        member_id = self.ids.get(name, f"{name}-1")
        match kind:
            case "join":
                return self._join(name)
            case "leave":
                return self._heartbeat(name, -1)
            case "away":
                return self._heartbeat(name, -2)
            case "commit":
                topic = rng.choice(list(TOPICS))
                partition = OffsetCommitRequestPartition(rng.randrange(TOPICS[topic]), 5, -1, committed_metadata="")
                epoch = self.epochs.get(name, -1) + rng.choice([0, 0, 0, -1, -2, 1])
                topics = [OffsetCommitRequestTopic(topic, partitions=[partition])]
                return OffsetCommitRequest(self.group, epoch, member_id, self.statics.get(name), -1, topics)
            case "describe":
                return ConsumerGroupDescribeRequest([self.group])
            case "classic":
                return self._classic()
        epoch = self.epochs.get(name, 1) + rng.choice([0] * 8 + [-1, 1])
        request = self._heartbeat(name, epoch)
        request.topic_partitions = rng.choice([None, self.owned.get(name), self.owned.get(name), []])
        if rng.random() < 0.15:
            request.subscribed_topic_names = rng.choice([["t"], ["u"], ["t", "u"], []])
        if rng.random() < 0.1:
            request.rebalance_timeout_ms = 60_000
        return request

    def _heartbeat(self, name: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        instance_id = self.statics.get(name)
        return ConsumerGroupHeartbeatRequest(self.group, self.ids.get(name, f"{name}-1"), epoch, instance_id)

    def _join(self, name: str) -> ConsumerGroupHeartbeatRequest:
        if self.rng.random() < 0.3:
            self.ids[name] = f"{name}-{self.rng.randrange(3)}"
        request = self._heartbeat(name, 0)
        request.rebalance_timeout_ms, request.topic_partitions = 60_000, []
        request.subscribed_topic_names = self.rng.choice([["t"], ["t", "u"], ["u"], ["t", "nowhere"]])
        request.server_assignor = "range"
        return request

    def _classic(self) -> Any:
        """Of a member of the classic protocol, while the group is of the consumer protocol: no response waits then."""
        group = self.here.shard.of_kind(ConsumerGroup).get(self.group)
        if group is None or not group.members:
            return ConsumerGroupDescribeRequest([self.group])
        member_id = self.rng.choice([*self.classic, *self.classic, ""])
        generation = self.classic.get(member_id, 0)
        kind = self.rng.choice(["join", "sync", "beat", "leave"] if member_id else ["join"])
        if kind == "join":
            owned = self.rng.choice([None, {"t": [0, 1]}, {"u": [2]}])
            metadata = encode_subscription(self.rng.choice([["t"], ["t", "u"]]), owned)
            protocols = [JoinGroupRequestProtocol("range", metadata)]
            return JoinGroupRequest(self.group, 45_000, 60_000, member_id, None, "consumer", protocols)
        if kind == "sync":
            return SyncGroupRequest(self.group, generation, member_id, None, "consumer", "range", [])
        if kind == "beat":
            return HeartbeatRequest(self.group, generation, member_id)
        return LeaveGroupRequest(self.group, "", [MemberIdentity(member_id)])

    def _learn(self, request: Any, response: Any) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest) and not response.error_code:
            name = request.member_id[0]
            self.epochs[name] = response.member_epoch
            if response.assignment is not None:
                self.owned[name] = response.assignment.topic_partitions
        if isinstance(request, JoinGroupRequest) and response.error_code in (0, ErrorCode.MEMBER_ID_REQUIRED):
            self.classic[response.member_id] = response.generation_id
        if isinstance(request, LeaveGroupRequest) and self.rng.random() < 0.8:
            self.classic.pop(request.members[0].member_id, None)


def comparable(response: Any) -> Any:
    """What must be equal: Kafka's sets have no order, and its texts are its own."""
    match response:
        case ConsumerGroupHeartbeatResponse():
            assignment = response.assignment
            given = None if assignment is None else partitions(assignment.topic_partitions)
            return response.error_code, response.error_message, response.member_id, response.member_epoch, given
        case ConsumerGroupDescribeResponse():
            (group,) = response.groups
            members = [
                (
                    *(m.member_id, m.instance_id, m.member_epoch, sorted(m.subscribed_topic_names), m.member_type),
                    partitions(m.assignment.topic_partitions),
                    partitions(m.target_assignment.topic_partitions),
                )
                for m in group.members
            ]
            epochs = (group.group_epoch, group.assignment_epoch, group.assignor_name)
            return group.error_code, group.error_message, group.group_state, epochs, sorted(members, key=str)
        case JoinGroupResponse():
            return response.error_code, response.generation_id, response.protocol_name or "", response.member_id
        case SyncGroupResponse():
            return response.error_code, response.assignment[:2], sorted(decode_assignment(response.assignment))
        case LeaveGroupResponse():
            return response.error_code, [(m.member_id, m.error_code) for m in response.members]
        case OffsetCommitResponse():
            return [(t.name, p.partition_index, p.error_code) for t in response.topics for p in t.partitions]
    return response.error_code


def code_of(response: Any) -> int:
    """The error code of the response, or of the only part of it."""
    if isinstance(response, OffsetCommitResponse):
        response = response.topics[0].partitions[0]
    elif isinstance(response, ConsumerGroupDescribeResponse):
        response = response.groups[0]
    code: int = response.error_code
    return code


def partitions(topics: Any) -> list[tuple[bytes, int]]:
    return sorted((t.topic_id, p) for t in topics for p in t.partitions)


def main(first: int, stories: int) -> int:
    differences, codes = 0, Counter[str]()
    settings = {**SETTINGS, "group.consumer.assignors": "range,uniform"}
    with tempfile.TemporaryDirectory() as folder, running(VERSION, Path(folder), settings) as address:
        plain = BrokerSocket(*address)
        plain.request(CreateTopicsRequest([CreatableTopic(name, count, 1) for name, count in TOPICS.items()]))
        wait_for_coordinator(address)
        described = plain.request(MetadataRequest([MetadataRequestTopic(name=name) for name in TOPICS])).topics
        images = {t.name: TopicImage(t.name, t.topic_id, TOPICS[t.name]) for t in described}
        kafka = Kafka(address)
        for seed in range(first, first + stories):
            here = Here(TopicsImage(images, 1, 1))
            assignors = here.shard.config.consumer_group_assignors
            here.shard.config.consumer_group_assignors = {name: assignors[name] for name in ("range", "uniform")}
            story = Story(seed, kafka, here)
            difference = story.run(60)
            codes.update(story.codes)
            if difference is not None:
                differences += 1
                print(f"seed {seed}\n{difference}\n", flush=True)
                if differences == 3:
                    break
    counted = ", ".join(f"{name} {count}" for name, count in sorted(codes.items()))
    print(f"{stories} stories, {differences} with a difference; responses: {counted}")
    return 1 if differences else 0


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    sys.exit(main(*(numbers + [0, 50][len(numbers) :])))
