"""Reconciliation: Kafka's CurrentAssignmentBuilderTest by name, and what holds of any course of heartbeats."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.replay import replay_consumer
from coterie.coordinator.consumer.state import (
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMemberState,
    CurrentAssignment,
    TopicIdPartition,
)
from coterie.coordinator.consumer.target import Reconciliation, reconcile
from coterie.wire.errors import ErrorCode, Refusal
from coterie_conformance.scenarios.groups.consumer_scenario import ConsumerScenario

S, UV, UL = (
    ConsumerMemberState.STABLE,
    ConsumerMemberState.UNREVOKED_PARTITIONS,
    ConsumerMemberState.UNRELEASED_PARTITIONS,
)


def partitions(text: str, epoch: int = -1) -> dict[TopicIdPartition, int]:
    """`a123@10 b4`: partitions 1 to 3 of topic a in epoch 10, 4 of b in ``epoch``."""
    read: dict[TopicIdPartition, int] = {}
    for word in text.split():
        name, _, at = word.partition("@")
        read |= {(name[0].encode() * 16, int(digit)): int(at or epoch) for digit in name[1:]}
    return read


def current(epochs: str, state: ConsumerMemberState, assigned: str, pending: str = "") -> CurrentAssignment:
    """`10/9`: epoch and previous epoch; partitions without an epoch of their own are in the first."""
    epoch, previous = map(int, epochs.split("/"))
    return CurrentAssignment(epoch, previous, state, partitions(assigned, epoch), partitions(pending, epoch))


ALL = "a1234567 b1234567"
IN_ANOTHERS = dict.fromkeys(partitions(ALL), "other")
TOPICS = frozenset({b"a" * 16, b"b" * 16})
# test, before, target's epoch, target, others' partitions, reported ones (None: no report), subscribed, changed, after
Case = tuple[str, CurrentAssignment, int, str, str, str | None, str, bool, CurrentAssignment]
PLAIN = current("10/10", S, "a123 b456")
REVOKING = current("10/10", UV, "a23 b56", "a1 b4")
WAITING = current("11/11", UL, "a23 b56")
UNSUBSCRIBED = current("10/9", S, "a123 b456")
CASES: list[Case] = [
    ("testStableToStable", current("10/10", S, "a123@5 b456@5"), 11, "a123 b456", ALL, None, "ab", False,
     current("11/10", S, "a123@5 b456@5")),
    ("testStableToStableWithNewPartitions", PLAIN, 11, "a1234 b4567", "", None, "ab", False,
     current("11/10", S, "a123@10 a4 b456@10 b7")),
    ("testStableToUnrevokedPartitions", PLAIN, 11, "a234 b567", "", None, "ab", False,
     current("10/10", UV, "a23 b56", "a1 b4")),
    ("testStableToUnreleasedPartitions", PLAIN, 11, "a1234 b4567", ALL, None, "ab", False,
     current("11/10", UL, "a123@10 b456@10")),
    ("testStableToUnreleasedPartitionsWithOwnedPartitionsNotHavingRevokedPartitions",
     PLAIN, 11, "a123 b457", "b1234567", "", "ab", False, current("11/10", UL, "a123@10 b45@10")),
    ("testUnrevokedPartitionsToStable", REVOKING, 11, "a23 b56", "", "a23 b56", "ab", False,
     current("11/10", S, "a23@10 b56@10")),
    ("testRemainsInUnrevokedPartitions", REVOKING, 12, "a3 b6", "", None, "ab", False, REVOKING),
    ("testRemainsInUnrevokedPartitions", REVOKING, 12, "a3 b6", "", "a123 b56", "ab", False, REVOKING),
    ("testRemainsInUnrevokedPartitions", REVOKING, 12, "a3 b6", "", "a23 b456", "ab", False, REVOKING),
    ("testUnrevokedPartitionsToUnrevokedPartitions", REVOKING, 12, "a3 b6", "", "a23 b56", "ab", False,
     current("10/10", UV, "a3 b6", "a2 b5")),
    ("testUnrevokedPartitionsToUnreleasedPartitions", current("11/10", UV, "a23 b56"), 11, "a234 b567", ALL,
     "a23 b56", "ab", False, current("11/11", UL, "a23 b56")),
    ("testUnrevokedPartitionsToStableWithReturnedPartitionsPendingRevocation",
     current("10/10", UV, "a23 b56", "a4"), 12, "a234 b567", "a4", "a23 b56", "ab", False,
     current("12/10", S, "a23@10 a4 b56@10 b7")),
    ("testUnreleasedPartitionsToStable", WAITING, 12, "a23 b56", ALL, None, "ab", False,
     current("12/11", S, "a23@11 b56@11")),
    ("testUnreleasedPartitionsToStableWithNewPartitions", WAITING, 11, "a234 b567", "", None, "ab", False,
     current("11/11", S, "a234 b567")),
    ("testUnreleasedPartitionsToUnreleasedPartitions", WAITING, 11, "a234 b567", ALL, None, "ab", False, WAITING),
    ("testUnreleasedPartitionsToUnrevokedPartitions", WAITING, 12, "a3 b6", ALL, None, "ab", False,
     current("11/11", UV, "a3 b6", "a2 b5")),
    ("testUnknownState", current("11/10", ConsumerMemberState.UNKNOWN, "a3 b6", "a2 b5"), 12, "a3 b6", ALL, "", "ab", False,
     current("12/11", S, "a3@11 b6@11")),
    ("testStableToStableWithAssignmentTopicsNoLongerInSubscription", UNSUBSCRIBED, 11, "a123 b456", "", "b456", "b",
     False, current("11/10", S, "b456@10")),
    ("testStableToStableWithAssignmentTopicsNoLongerInSubscription", UNSUBSCRIBED, 11, "a123 b456", "", "b456", "b",
     True, current("11/10", S, "b456@10")),
    ("testStableToStableWithAssignmentTopicsNoLongerInSubscription", UNSUBSCRIBED, 10, "a123 b456", "", "b456", "b",
     True, current("10/10", S, "b456")),
    ("testStableToUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription", UNSUBSCRIBED, 11, "a123 b456", "",
     "a123 b456", "b", False, current("10/10", UV, "b456", "a123")),
    ("testStableToUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription", UNSUBSCRIBED, 10, "a123 b456", "",
     "a123 b456", "b", True, current("10/10", UV, "b456", "a123")),
    ("testRemainsInUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription", REVOKING, 12, "a134 b67", "",
     "a123 b456", "b", True, current("10/10", UV, "b56", "a1 b4 a23")),
    ("testSubscribedTopicNameAndUnresolvedRegularExpression", PLAIN, 10, "a123 b456", "", "a123 b456", "a", True,
     current("10/10", UV, "a123", "b456")),
    ("testUnresolvedRegularExpression", PLAIN, 10, "a123 b456", "", "a123 b456", "", True,
     current("10/10", UV, "", "a123 b456")),
    ("testSubscribedTopicNameAndResolvedRegularExpression", PLAIN, 10, "a123 b456", "", "a123 b456", "ab", True, PLAIN),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_current_assignment(case: Case) -> None:
    _, before, epoch, target, others, owned, subscribed, changed, after = case
    given_ = Reconciliation(
        epoch,
        partitions(target).keys(),
        {topic.encode() * 16 for topic in subscribed},
        {p: "other" for p in partitions(others) if p not in before.assigned},
        None if owned is None else partitions(owned).keys(),
        changed,
    )
    assert reconcile(before, given_) == after


@pytest.mark.parametrize("owned", [None, "a3"])
def test_a_member_in_an_unknown_state_is_fenced_while_it_owns_anything(owned: str | None) -> None:
    before = current("11/10", ConsumerMemberState.UNKNOWN, "a3 b6", "a2 b5")
    reported = None if owned is None else partitions(owned).keys()
    with pytest.raises(Refusal) as refused:
        reconcile(before, Reconciliation(12, partitions("a3 b6").keys(), TOPICS, IN_ANOTHERS, reported))
    assert refused.value.code == ErrorCode.FENCED_MEMBER_EPOCH


# -- any course ----------------------------------------------------------------------------------------------------------

MEMBERS = ("m0", "m1", "m2", "m3")
EVERY = [(topic, index) for topic in sorted(TOPICS) for index in range(4)]


@dataclass
class Client:
    """A member's own view: the partitions that it uses, and an assignment that it got and has not applied (None: none).

    It reports both: one that left out an assignment under way would acknowledge its revocation before it took it."""

    uses: set[TopicIdPartition] = field(default_factory=set)
    assigned: set[TopicIdPartition] | None = None

    def revoke(self) -> None:
        """Revokes what the last assignment lacks."""
        if self.assigned is not None:
            self.uses &= self.assigned

    def take(self) -> None:
        """Applies the last assignment whole."""
        if self.assigned is not None:
            self.uses, self.assigned = set(self.assigned), None


class Course:
    """A group whose clients heartbeat, lose responses, revoke late and change their subscription, in any order."""

    def __init__(self) -> None:
        self.group = ConsumerGroup("g")
        self.clients: dict[str, Client] = {}
        self.subscribed: dict[str, frozenset[bytes]] = {}

    def apply(self, *events: e.ConsumerEvent) -> None:
        for event in events:
            replay_consumer(self.group, event, 0)

    def join(self, member_id: str) -> None:
        if member_id not in self.clients:
            self.clients[member_id], self.subscribed[member_id] = Client(), TOPICS
            self.apply(e.CurrentStored(member_id, CurrentAssignment()), e.TargetStored(member_id, frozenset()))

    def leave(self, member_id: str) -> None:
        if self.clients.pop(member_id, None) is not None:
            self.apply(e.CurrentRemoved(member_id), e.TargetRemoved(member_id), e.SubscriptionRemoved(member_id))

    def target(self, owners: list[str]) -> None:
        """A new target: partition by partition the name of its member, where that one is there and subscribes."""
        epoch = self.group.group_epoch + 1
        target: dict[str, set[TopicIdPartition]] = {m: set() for m in self.group.members}
        for partition, member_id in zip(EVERY, owners, strict=True):
            if member_id in target and partition[0] in self.subscribed[member_id]:
                target[member_id].add(partition)
        self.apply(e.GroupEpochStored(epoch, 0), *(e.TargetStored(m, frozenset(p)) for m, p in target.items()))
        self.apply(e.TargetEpochStored(epoch, 0))

    def subscribe(self, member_id: str, topics: frozenset[bytes]) -> None:
        if member_id in self.clients:
            self.subscribed[member_id] = topics
            self.heartbeat(member_id, report=True, lost=False, changed=True)

    def heartbeat(self, member_id: str, report: bool, lost: bool, changed: bool = False) -> None:
        client = self.clients.get(member_id)
        if client is None:
            return
        before = self.group.members[member_id].current
        after = reconcile(
            before,
            Reconciliation(
                self.group.assignment_epoch,
                self.group.target[member_id],
                self.subscribed[member_id],
                self.group.owners,
                client.uses | (client.assigned or set()) if report else None,
                changed,
            ),
        )
        assert after.member_epoch >= before.member_epoch, "an epoch fell"
        assert all(epoch <= after.member_epoch for epoch in after.assigned.values())
        assert not after.assigned.keys() & after.pending_revocation.keys()
        assert all(before.assigned[p] == epoch for p, epoch in after.assigned.items() if p in before.assigned)
        if after != before:
            self.apply(e.CurrentStored(member_id, after))
        if not lost:
            client.assigned = set(after.assigned)

    def check(self) -> None:
        used = [p for client in self.clients.values() for p in client.uses]
        assert len(used) == len(set(used)), "two members use one partition"
        for member_id, client in self.clients.items():
            here = self.group.members[member_id].current
            assert client.uses <= here.assigned.keys() | here.pending_revocation.keys(), "used, but free for others"
        assert self.group.owners == {
            p: m.member_id
            for m in self.group.members.values()
            for p in (*m.current.assigned, *m.current.pending_revocation)
        }
        stable = sum(m.current.is_reconciled_to(self.group.assignment_epoch) for m in self.group.members.values())
        assert (self.group.phase == ConsumerGroupState.STABLE) == (
            bool(self.group.members) and stable == len(self.group.members)
        )


member = st.sampled_from(MEMBERS)
STEPS = st.one_of(
    st.tuples(st.just("join"), member),
    st.tuples(st.just("leave"), member),
    st.tuples(st.just("target"), st.lists(member, min_size=len(EVERY), max_size=len(EVERY))),
    st.tuples(st.just("subscribe"), member, st.frozensets(st.sampled_from(sorted(TOPICS)))),
    st.tuples(st.just("heartbeat"), member, st.booleans(), st.booleans()),
    st.tuples(st.just("heartbeat"), member, st.just(True), st.just(False)),
    st.tuples(st.just("revoke"), member),
    st.tuples(st.just("take"), member),
)


@given(st.lists(STEPS, max_size=60))
def test_each_partition_has_one_user_and_the_group_becomes_stable(steps: list[tuple[str, object]]) -> None:
    course = Course()
    for member_id in MEMBERS[:2]:
        course.join(member_id)
    course.target(["m0"] * len(EVERY))
    for verb, *arguments in steps:
        if verb in ("revoke", "take"):
            client = course.clients.get(str(arguments[0]))
            if client is not None:
                getattr(client, verb)()
        else:
            getattr(course, verb)(*arguments)
        course.check()
    # Nothing changes any more: three rounds of complete heartbeats make every member stable, with what it is to have.
    course.target(["m1"] * len(EVERY))
    for _ in range(3):
        for member_id, client in course.clients.items():
            course.heartbeat(member_id, report=True, lost=False)
            client.take()
            course.check()
    for member_id, m in course.group.members.items():
        assert m.current.is_reconciled_to(course.group.assignment_epoch)
        assert m.current.assigned.keys() == course.group.target[member_id] == course.clients[member_id].uses


@pytest.mark.parametrize(
    ("name", "steps", "expected"),
    [
        (
            "testStaticMemberRejoinsWithNewSubscribedTopics: 0 after its return, by which it can commit at once",
            ["member a join instance=i1", "member a leave-static", "member a join id=a-2 topics=t+u"],
            {("t", 0): 0, ("t", 1): 0, ("u", 0): 3},
        ),
        (
            "testJoiningConsumerGroupWithExistingStaticMemberAndNewSubscription",
            [
                "member z join topics=-",
                "join a protocols=range:t instance=i1 version=5",
                "join a protocols=range:t+u!t-0+t-1 version=5",
            ],
            {("t", 0): 2, ("t", 1): 2, ("u", 0): 3},
        ),
    ],
)
def test_a_partition_keeps_the_epoch_in_which_it_was_assigned(
    name: str, steps: list[str], expected: dict[tuple[str, int], int]
) -> None:
    run = ConsumerScenario()
    for step in ("topics t=2 u=1", *steps):
        run.step(step)
    group = run.shard.of_kind(ConsumerGroup)["g"]
    member = next(m for m in group.members.values() if m.subscription.instance_id == "i1")
    assert {(t.decode().strip("."), p): epoch for (t, p), epoch in member.current.assigned.items()} == expected
