"""What answers carry beyond an error code, which group goes where, and what the journal says."""

from __future__ import annotations

import pytest

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.coordinator.commands import Command
from coterie.coordinator.journal.line import CAUSES, EVENTS, JournalLine
from coterie.coordinator.journal.lines import JournalLines
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.partitioning import java_hash, partition_for
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.stored_records.stored import from_record
from coterie.coordinator.write_queue import drive
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.wire.primitives import WireError
from coterie_conformance.scenarios.groups.scenario import ScenarioRun


class JournalledShard:
    """A shard with a log that always works, its responses, and its journal."""

    def __init__(self) -> None:
        self.shard = Shard(CoordinatorConfig(group_initial_rebalance_delay_ms=0))
        self.journal_lines, self.lines = JournalLines(), list[JournalLine]()
        self.responses: dict[object, object] = {}
        self.now_ms = 0

    def submit(self, command: Command, token: str, version: int = 3, client: str = "c") -> object:
        ctx = Context(self.now_ms, token, token, version, client, "/h")
        drive(self.shard, self.shard.decide(command, ctx), lambda decisions: None, self._committed)
        return self.responses.get(token)

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            line = self.journal_lines.line(step, decision.group, decision.now_ms)
            if line is not None:
                self.lines.append(line)
        for reply in decision.outcome.replies:
            self.responses[reply.token] = reply.response


def join(member_id: str = "", reason: str | None = None) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", encode_subscription({"t"}))]
    return JoinGroupRequest("g", 10_000, 10_000, member_id, None, "consumer", protocols, reason)


def test_an_error_carries_no_protocol_and_a_good_answer_does() -> None:
    """testJoinGroupProtocolTypeIsNotProvidedWhenAnErrorOccurs, testJoinGroupReturnsTheProtocolType"""
    journalled = JournalledShard()
    refused = journalled.submit(join("stranger"), "1")
    assert isinstance(refused, JoinGroupResponse)
    assert (refused.protocol_type, refused.protocol_name, refused.generation_id) == (None, None, -1)
    good = journalled.submit(join(), "2")
    assert isinstance(good, JoinGroupResponse)
    assert (good.protocol_type, good.protocol_name) == ("consumer", "range")


def test_a_static_member_that_cannot_be_replaced_is_named_the_generation_that_goes_on() -> None:
    """testReplaceStaticMemberInStableStateErrors, its response: generation, protocol and leader, but no member id."""
    run = ScenarioRun()
    run.step("join a instance=i1")
    run.step("sync a")
    ctx = Context(0, "token", "2", 8, "b", "/h")
    protocols = [JoinGroupRequestProtocol("range", encode_subscription({"u"}))]
    decision = run.shard.decide(JoinGroupRequest("g", 6_000, 7_000, "", "i1", "consumer", protocols), ctx)
    assert [type(event).__name__ for event in decision.outcome.events] == ["StaticMemberReplaced", "GroupStored"]
    failed = run.shard.append_failed(decision, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert not failed.outcome.events
    (reply,) = failed.outcome.replies
    assert reply.response == JoinGroupResponse(
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="i1-1",
        member_id="",
    )


@pytest.mark.parametrize(
    ("group", "hashed"),
    # Java: "".hashCode(), "a".hashCode(), ... and the one whose hash is Integer.MIN_VALUE.
    [("", 0), ("a", 97), ("polygenelubricants", -(2**31)), ("group-1", 293427299), ("漢字", 905333), ("😀", 1772899)],
)
def test_java_hash(group: str, hashed: int) -> None:
    assert java_hash(group) == hashed
    assert 0 <= partition_for(group, 50) < 50


def test_the_smallest_hash_counts_as_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_the_journal_tells_causes_phases_and_moves() -> None:
    journalled = JournalledShard()
    one = journalled.submit(join(reason="hello"), "one")
    assert isinstance(one, JoinGroupResponse)
    journalled.now_ms = 5
    share = encode_assignment({"t": [0, 1]})
    journalled.submit(
        SyncGroupRequest("g", 1, "c-one", assignments=[SyncGroupRequestAssignment("c-one", share)]), "sync-1"
    )
    journalled.now_ms = 100
    journalled.submit(join(), "two")
    journalled.now_ms = 130
    journalled.submit(join("c-one"), "one-again")
    journalled.now_ms = 150
    shares = [SyncGroupRequestAssignment(f"c-{m}", encode_assignment({"t": [p]})) for m, p in (("one", 0), ("two", 1))]
    journalled.submit(SyncGroupRequest("g", 2, "c-one", assignments=shares), "sync-2")
    journalled.now_ms = 200
    journalled.submit(LeaveGroupRequest("g", members=[MemberIdentity("c-two", None, "goodbye")]), "leave", 5)
    first, second = [line for line in journalled.lines if line.event == "stable"]
    assert (first.generation, first.join_ms, first.sync_ms, first.moved_count) == (1, 0, 5, 0)
    assert [(m["from"], m["to"]) for m in first.moved] == [(None, "c-one")] * 2, "a first owner is no move"
    assert (first.unowned_ms, second.moved_count, second.unowned_ms) == (2 * 5, 1, 2 * 50)
    assert first.why() == "c-one joined (hello)"
    assert first.owners == {"c-one": {"t": [0, 1]}}
    assert (second.generation, second.join_ms, second.sync_ms) == (2, 30, 20)
    assert second.moved == [{"topic": "t", "partition": 1, "from": "c-one", "to": "c-two"}]
    left = next(line for line in journalled.lines if line.event == "member_removed")
    assert left.why() == "c-two left (goodbye)"
    for line in journalled.lines:
        assert line.event in EVENTS
        assert all(c["kind"] in CAUSES for c in line.causes)
        assert JournalLine.from_json(line.to_json()) == line


def test_a_cause_that_comes_during_a_rebalance_is_not_among_those_of_its_start() -> None:
    journalled = JournalledShard()
    journalled.submit(join(), "one")
    journalled.submit(
        SyncGroupRequest("g", 1, "c-one", assignments=[SyncGroupRequestAssignment("c-one", b"")]), "sync-1"
    )
    for token in ("two", "three"):
        journalled.submit(join(), token)
    journalled.submit(join("c-one"), "one-again")
    started, formed = (
        [line for line in journalled.lines if line.event == event][-1]
        for event in ("rebalance_started", "generation_formed")
    )
    assert (started.why(), formed.why()) == ("c-two joined", "c-two joined; c-three joined")


def test_records_that_nobody_knows_are_stepped_over_and_damaged_ones_are_refused() -> None:
    """testReadMessageKeyCanReadUnknownMessage, testLoadGroupsAndOffsetsWillIgnoreUnknownMessage,
    testShouldThrowExceptionForUnsupportedGroupMetadataVersion"""
    assert from_record(b"\x00\x63rest", b"value") is None
    assert from_record(None, b"value") is None
    with pytest.raises(WireError):
        from_record(b"\x00\x02\x00\x01g", b"\x00\x63value")
    with pytest.raises(WireError):
        from_record(b"\x00\x01\x00\x05g", b"\x00\x03")
