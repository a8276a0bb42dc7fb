"""Requests of members of both protocols in any order, whatever they hold, to one group: each is decided without an exception,
also when appends fail, topics come and go, and the shard is loaded again, from a log that may have lost records.

`python -m tests.coordinator.test_any_commands FIRST STORIES` looks at more of them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.coordinator.commands import Command, DeleteGroup, RegexesResolved
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import MigrationPolicy
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import Group
from coterie.coordinator.stored_records.stored import StoredRecord
from coterie.coordinator.write_queue import drive
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TOPICS = "tuv"
STEPS = 60


def topic(name: str, partitions: int) -> TopicImage:
    return TopicImage(name, name.encode().ljust(16), partitions)


class Story:
    """One group, and what its members have been told."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.config = CoordinatorConfig(
            group_initial_rebalance_delay_ms=rng.choice([0, 100]),
            group_max_size=rng.choice([2, 3, 99]),
            group_consumer_assignment_interval_ms=rng.choice([0, 1_000]),
            group_consumer_max_size=rng.choice([2, 4, 99]),
            consumer_group_migration_policy=rng.choice(list(MigrationPolicy)),
            regex_problem=lambda regex: "missing )" if "(" in regex else None,
        )
        self.shard, self.log, self.now_ms = Shard(self.config), list[StoredRecord](), 1_000
        self.topics = TopicsImage({name: topic(name, 3) for name in "tu"}, 1, 1)
        self.member_ids, self.epochs = ["", "m1", "m2", "m3"], [-3, -2, -1, 0, 0, 0, 1, 2]
        self.append_fails = False
        makers: dict[Callable[[], Command], int] = {self.join: 30, self.sync: 15, self.heartbeat: 8, self.leave: 7}
        makers |= {self.consumer_heartbeat: 27, self.resolved: 3, lambda: DeleteGroup("g"): 1}
        self.makers, self.weights = list(makers), list(makers.values())

    # -- what a request may hold ---------------------------------------------------------------------------------------

    def any_member(self) -> str:
        return self.rng.choice(self.member_ids[-8:])

    def any_instance(self) -> str | None:
        return self.rng.choice([None, None, "i1", "i2"])

    def any_epoch(self) -> int:
        return self.rng.choice(self.epochs[-8:] if self.rng.random() < 0.8 else self.epochs)

    def any_partitions(self) -> dict[str, list[int]]:
        names = self.rng.sample(TOPICS, self.rng.randint(0, 2))
        return {name: [self.rng.randint(0, 4) for _ in range(self.rng.randint(0, 3))] for name in names}

    def any_topics(self) -> list[str]:
        return self.rng.sample(TOPICS, self.rng.randint(0, 2))

    def blob(self, valid: bytes) -> bytes:
        return valid if self.rng.random() < 0.95 else self.rng.randbytes(self.rng.randint(0, 9))

    def join(self) -> Command:
        rng = self.rng
        names = rng.sample(["range", "sticky", "cooperative"], rng.choice([0, 1, 1, 2, 2, 3]))
        protocols = []
        for name in names:
            owned = self.any_partitions() if rng.random() < 0.4 else None
            protocols.append(JoinGroupRequestProtocol(name, self.blob(encode_subscription(self.any_topics(), owned))))
        kind = "consumer" if rng.random() < 0.9 else rng.choice(["connect", ""])
        session_ms, rebalance_ms = rng.choice([10_000, 6_000, 5]), rng.choice([20_000, 60_000, 0, -1])
        return JoinGroupRequest("g", session_ms, rebalance_ms, self.any_member(), self.any_instance(), kind, protocols)

    def sync(self) -> Command:
        shares = [
            SyncGroupRequestAssignment(self.any_member(), self.blob(encode_assignment(self.any_partitions())))
            for _ in range(self.rng.randint(0, 3))
        ]
        member_id, generation, instance_id = self.any_member(), self.any_epoch(), self.any_instance()
        group = self.shard.group("g")
        if isinstance(group, Group) and group.leader in group.members and self.rng.random() < 0.6:
            leader = group.members[group.leader]
            member_id, generation, instance_id = leader.member_id, group.generation, leader.group_instance_id
        kind = self.rng.choice([None, None, "consumer", "connect"])
        return SyncGroupRequest("g", generation, member_id, instance_id, kind, None, shares)

    def heartbeat(self) -> Command:
        return HeartbeatRequest("g", self.any_epoch(), self.any_member(), self.any_instance())

    def leave(self) -> Command:
        count = self.rng.randint(0, 3)
        members = [MemberIdentity(self.any_member(), self.any_instance()) for _ in range(count)]
        return LeaveGroupRequest("g", self.any_member(), members)

    def consumer_heartbeat(self) -> Command:
        rng, epoch = self.rng, self.any_epoch()
        full = epoch == 0 or rng.random() < 0.3
        owned = [TopicPartitions(topic(n, 1).topic_id, ps) for n, ps in self.any_partitions().items()]
        return ConsumerGroupHeartbeatRequest(
            "g",
            self.any_member(),
            epoch,
            self.any_instance(),
            rng.choice([None, None, "r1"]),
            rng.choice([60_000, 5, -7]) if full else -1,
            self.any_topics() if full or rng.random() < 0.2 else None,
            rng.choice([None, None, None, "t.*", "u", "(", ""]),
            rng.choice([None, None, "range", "uniform", "sticky"]),
            [] if epoch == 0 else rng.choice([None, owned]),
        )

    def resolved(self) -> Command:
        topics = {regex: frozenset(self.any_topics()) for regex in ("t.*", "u")}
        return RegexesResolved("g", topics, self.topics.version)

    # -- what happens ----------------------------------------------------------------------------------------------------

    def submit(self, command: Command) -> None:
        ctx = Context(self.now_ms, "token", str(self.now_ms), self.rng.choice([0, 1, 3, 5, 9]), "c", "/h", self.topics)
        drive(self.shard, self.shard.decide(command, ctx), self._append, self._committed)

    def _append(self, decisions: list[Decision]) -> None:
        if self.append_fails:
            self.append_fails = False
            raise Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)
        self.log += [record for decision in decisions for record in decision.records]

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for reply in decision.outcome.replies:
            self.member_ids += filter(None, [getattr(reply.response, "member_id", None)])
            self.epochs += [getattr(reply.response, name, 0) for name in ("generation_id", "member_epoch")]

    def step(self) -> None:
        rng = self.rng
        self.now_ms += rng.choice([1, 50, 500, 3_000, 11_000])
        self.append_fails = rng.random() < 0.1
        match rng.choices(["request", "topic", "restart", "deadlines"], [80, 10, 4, 6])[0]:
            case "request":
                self.submit(rng.choices(self.makers, self.weights)[0]())
            case "topic":
                name, version = rng.choice(TOPICS), self.topics.version + 1
                others = {n: image for n, image in self.topics.topics.items() if n != name}
                added = {} if rng.random() < 0.3 else {name: topic(name, rng.randint(1, 5))}
                self.topics = TopicsImage(others | added, version, version)
            case "restart":
                self.restart()
            case "deadlines":
                for command in self.shard.expired(self.now_ms):
                    self.submit(command)

    def restart(self) -> None:
        if self.log and self.rng.random() < 0.3:
            first = self.rng.randrange(len(self.log))
            del self.log[first : first + self.rng.randint(1, 3)]  # a damaged batch was taken out
        self.shard = Shard(self.config)
        for record in self.log:
            self.shard.load(record.key, record.value, self.now_ms)
        self.begin()

    def begin(self) -> None:
        """As a coordinator that has loaded the log."""
        for decision in self.shard.loaded(self.now_ms):
            drive(self.shard, decision, self._append, self._committed)


def run(seed: int) -> None:
    story = Story(seed)
    for _ in range(STEPS):
        story.step()


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_any_commands_are_decided(first: int) -> None:
    for seed in range(first, first + 100):
        try:
            run(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


if __name__ == "__main__":
    for seed in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
        print(seed, end="\r", flush=True)
        run(seed)
