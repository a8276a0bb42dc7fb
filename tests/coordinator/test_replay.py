"""Groups change by `replay` alone: nothing else in the coordinator assigns to their state, deciding leaves it as it is,
and the log of the decisions gives the same offsets, pending ones too, and the same members, whose sessions start again.
What the records of a log make of a share group; names are those of Kafka's GroupMetadataManagerTest.

`python -m tests.coordinator.test_replay FIRST STORIES` looks at more stories.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

import coterie.coordinator
from coterie.coordinator import dispatch
from coterie.coordinator.commands import Command, DeleteGroup, ExpireOffsets, TopicsDeleted
from coterie.coordinator.consumer.state import ConsumerGroup, MemberTimers
from coterie.coordinator.offsets.commit import decide_commit
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.share import events as s
from coterie.coordinator.share.replay import replay_share
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import CommittedOffset, Group, GroupOffsets, Member, PendingOffset, Reservation
from coterie.coordinator.stored_records.stored import StoredRecord
from coterie.coordinator.write_queue import drive
from coterie.laboratory.group_checkers import check_loaded, check_replay
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups import offset_commit as oc
from coterie.wire.messages.groups import offset_delete as od
from coterie.wire.messages.transactions import txn_offset_commit as tc
from tests.coordinator.test_any_commands import STEPS, TOPICS, Story

ROOM = Path(coterie.coordinator.__path__[0])
STATE = (GroupOffsets, Group, ConsumerGroup, Member, Reservation, PendingOffset, MemberTimers)
FIELDS = frozenset(field.name for kind in STATE for field in fields(kind))
MUTATORS = {"append", "extend", "insert", "remove", "clear", "pop", "popitem", "update", "setdefault", "add", "discard"}
# What else has fields of such names: the lines of the journal. And the heap's own mark on what it has an entry for.
OF_THE_JOURNAL = {
    "journal/lines.py",
    "journal/modern_lines.py",
    "journal/journal_timeline.py",
}
OF_THE_HEAP = ("deadlines.py", "queued_ms")
COMMIT = Shard.commit


def _field_of(target: ast.expr) -> str | None:
    """The field of another object that the expression is, or is an item of."""
    while isinstance(target, ast.Subscript | ast.Starred):
        target = target.value
    if isinstance(target, ast.Attribute) and not (isinstance(target.value, ast.Name) and target.value.id == "self"):
        return target.attr
    return None


def changed_fields(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each attribute of another object that is assigned to, deleted, or changed in its place."""
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        match node:
            case ast.Assign() | ast.Delete():
                targets = [
                    part for t in node.targets for part in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])
                ]
            case ast.AugAssign() | ast.AnnAssign():
                targets = [node.target]
            case ast.Call(func=ast.Attribute(value=changed, attr=name)) if name in MUTATORS:
                targets = [changed]
        for target in targets:
            changed_field = _field_of(target)
            if changed_field in FIELDS:
                yield target.lineno, str(changed_field)


def side_roads(room: Path = ROOM) -> list[str]:
    """The lines of the coordinator that change a group and are none of `replay`'s."""
    roads = []
    for path in sorted(room.rglob("*.py")):
        name = path.relative_to(room).as_posix()
        if path.name != "replay.py" and name not in OF_THE_JOURNAL:
            changes = changed_fields(path.read_text())
            roads += [f"{name}:{line} changes {field}" for line, field in changes if (name, field) != OF_THE_HEAP]
    return roads


def test_nothing_but_replay_assigns_to_a_group() -> None:
    assert side_roads() == []


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("group.offsets[partition] = committed", "offsets"),
        ("self.groups[group_id].offsets[partition] = committed", "offsets"),
        ("group.pending_offsets.pop(7)", "pending_offsets"),
        ("loaded.offsets, loaded.pending_order = {}, 0", "offsets"),
        ("member.deadline_ms = now_ms + member.session_timeout_ms", "deadline_ms"),
        ("group.timers[member_id].session_ms = now_ms", "session_ms"),
        ("group.members[member_id].assignment = b''", "assignment"),
        ("group.wanted.append(cause)", "wanted"),
        ("group.epochs[epoch] += 1", "epochs"),
        ("del group.reservations[member_id]", "reservations"),
        ("group.queued_ms = -1", "queued_ms"),
    ],
)
def test_a_side_road_is_seen(line: str, field: str, tmp_path: Path) -> None:
    (tmp_path / "replay.py").write_text(line)
    (tmp_path / "shard.py").write_text(line)
    assert f"shard.py:1 changes {field}" in side_roads(tmp_path)
    assert not [road for road in side_roads(tmp_path) if road.startswith("replay.py")]


def plain(value: object) -> object:
    """The value as it is now, to the depth of its dataclasses and containers (compiled classes cannot be copied)."""
    if is_dataclass(value):
        return type(value).__name__, {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return [(plain(key), plain(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return frozenset(value) if isinstance(value, set) else value


class Entry(NamedTuple):
    """A record of the log, and the producer of its transaction; or the marker that commits or aborts that."""

    record: StoredRecord | None
    producer_id: int
    committed: bool = False


class CommitStory(Story):
    """Members of both protocols that also commit, in transactions too, in a group whose offsets and topics are deleted."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.entries: list[Entry] = []
        offsets = {self.commit: 30, self.transactional_commit: 25, self.delete_offsets: 5, self.delete_topics: 2}
        self.makers += [*offsets, lambda: ExpireOffsets("g"), lambda: DeleteGroup("g")]
        self.weights += [*offsets.values(), 2, 3]

    def sender(self) -> tuple[int, str]:
        """Generation, or epoch, and id of one that commits: a member, or a simple consumer."""
        group = self.shard.group("g")
        if group is None or not group.members or self.rng.random() < 0.1:
            return -1, ""
        member_id = self.rng.choice(list(group.members))
        if isinstance(group, ConsumerGroup):
            return group.members[member_id].current.member_epoch, member_id
        return group.generation, member_id

    def commit(self) -> Command:
        (generation, member_id), offset = self.sender(), self.rng.randrange(1_000)
        partitions = [oc.OffsetCommitRequestPartition(p, offset) for p in range(self.rng.randint(1, 3))]
        topics = [oc.OffsetCommitRequestTopic(name=self.rng.choice(TOPICS), partitions=partitions)]
        return oc.OffsetCommitRequest("g", generation, member_id, topics=topics)

    def transactional_commit(self) -> Command:
        (generation, member_id), offset = self.sender(), self.rng.randrange(1_000)
        partitions = [tc.TxnOffsetCommitRequestPartition(p, offset) for p in range(self.rng.randint(1, 3))]
        topics = [tc.TxnOffsetCommitRequestTopic(self.rng.choice(TOPICS), partitions=partitions)]
        producer_id = self.rng.choice([7, 8, 9])
        return tc.TxnOffsetCommitRequest("tid", "g", producer_id, 0, generation, member_id, None, topics)

    def delete_offsets(self) -> Command:
        partitions = [od.OffsetDeleteRequestPartition(p) for p in range(2)]
        return od.OffsetDeleteRequest("g", [od.OffsetDeleteRequestTopic(self.rng.choice(TOPICS), partitions)])

    def delete_topics(self) -> Command:
        name = self.rng.choice(TOPICS)
        return TopicsDeleted("g", ((name, name.encode().ljust(16)),))

    def submit(self, command: Command) -> None:
        """Deciding leaves the group as it is."""
        ctx = Context(self.now_ms, "token", str(self.now_ms), self.rng.choice([0, 1, 3, 5, 9]), "c", "/h", self.topics)
        before = plain(self.shard.group("g"))
        decision = self.shard.decide(command, ctx)
        assert plain(self.shard.group("g")) == before, f"deciding {command} changed the group"
        drive(self.shard, decision, self._append, self._committed)

    def _append(self, decisions: list[Decision]) -> None:
        if self.append_fails:
            self.append_fails = False
            raise Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)
        for decision in decisions:
            producer = decision.outcome.producer
            producer_id = -1 if producer is None else producer[0]
            self.entries += [Entry(record, producer_id) for record in decision.records]

    def load(self) -> Shard:
        again = Shard(self.config)
        for record, producer_id, committed in self.entries:
            if record is None:
                again.end_transaction(producer_id, committed, self.now_ms)
            else:
                again.load(record.key, record.value, self.now_ms, producer_id, 0)
        return again

    def restart(self) -> None:
        self.shard = self.load()
        self.begin()
        for group in self.shard.groups.values():
            for member in group.members.values():
                assert member.deadline_ms == self.now_ms + member.session_timeout_ms
                assert 0 <= member.queued_ms <= member.deadline_ms
        for consumers in self.shard.of_kind(ConsumerGroup).values():
            for timers in consumers.timers.values():
                assert timers.session_ms == self.now_ms + self.config.group_consumer_session_timeout_ms
                assert 0 <= timers.queued_ms <= timers.deadline_ms

    def step(self) -> None:
        if self.rng.random() < 0.1:
            producer_id, committed = self.rng.choice([7, 8, 9]), self.rng.random() < 0.7
            self.entries.append(Entry(None, producer_id, committed))
            self.shard.end_transaction(producer_id, committed, self.now_ms)
        else:
            super().step()
        self.check()

    def check(self) -> None:
        again = self.load()
        check_replay(self.shard, again)
        check_loaded(self.shard, again)
        assert offsets_of(self.shard) == offsets_of(again)


def offsets_of(shard: Shard) -> tuple[object, object]:
    """The group's committed offsets, and those of open transactions in the order of the log."""
    group = shard.group("g") or Group("g")
    pending = [
        (waiting.order, producer_id, topic_partition, waiting.committed, waiting.superseded)
        for producer_id, offsets in group.pending_offsets.items()
        for topic_partition, waiting in offsets.items()
    ]
    return group.offsets, [entry[1:] for entry in sorted(pending)]


def run(seed: int) -> CommitStory:
    story = CommitStory(seed)
    try:
        for _ in range(STEPS):
            story.step()
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
    return story


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_the_log_gives_what_the_decisions_gave(first: int) -> None:
    stories = [run(seed) for seed in range(first, first + 30)]
    producers = {entry.producer_id for story in stories for entry in story.entries if entry.record is not None}
    assert producers == {-1, 7, 8, 9}, "no offsets of transactions were committed"


def store_beside_replay(shard: Shard, decision: Decision) -> list[Step]:
    """What a side road of a commit would be: an offset that no event gave."""
    steps = COMMIT(shard, decision)
    group = shard.group("g")
    if group is not None and decision.records:
        group.offsets["side road", 0] = CommittedOffset(1, -1, "", 0)
    return steps


def start_sessions(
    group: AnyGroup, exists: bool, request: oc.OffsetCommitRequest, ctx: Context, config: CoordinatorConfig
) -> Outcome:
    """What a side road of a decision would be: deadlines that move before the commit is kept."""
    for member in group.members.values() if isinstance(group, Group) else ():
        member.deadline_ms = ctx.now_ms + 1
    assert not isinstance(group, ShareGroup)
    return decide_commit(group, exists, request, ctx, config)


def test_an_offset_beside_replay_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shard, "commit", store_beside_replay)
    with pytest.raises(AssertionError):
        run(0)


def test_a_change_by_a_decision_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "decide_commit", start_sessions)
    with pytest.raises(AssertionError, match="changed the group"):
        run(22)  # members that commit


def test_the_tombstone_of_a_target_assignment() -> None:
    """testReplayShareGroupTargetAssignmentMetadataTombstoneExisting: the next target is due at once, whatever the interval"""
    group = ShareGroup("foo")
    replay_share(group, s.ShareTargetEpochStored(10, 12345), 0)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (10, 12345)
    replay_share(group, s.ShareTargetEpochRemoved(), 0)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (-1, 0)


if __name__ == "__main__":
    for seed in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
        print(seed, end="\r", flush=True)
        run(seed)
