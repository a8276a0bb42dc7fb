"""What the response to a commit means to a member (ConsumerCoordinator's OffsetCommitResponseHandler; for the consumer protocol
CommitRequestManager)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from coterie.consuming.commits.offset_commit import (
    NOT_A_MEMBER,
    OF_ANY_COMMIT,
    RETRIED,
    Verdict,
    verdict_without_machine,
)
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.effects import TopicPartition
from coterie.member.machine import MemberMachine
from coterie.member.state import IN_A_ROUND, NOT_TAKING_PART, Stage
from coterie.wire.errors import ErrorCode

GroupMachine = MemberMachine | ConsumerMemberMachine


class CommitPurpose(Enum):
    """What a member commits for; it says which errors end the commit that others repeat. Kafka's classic consumer repeats the
    commit before a revocation for a deleted topic too, for up to max.poll.interval.ms (KAFKA-16235)."""

    CALL = "of a user: a stale epoch ends it"
    REVOCATION = "before partitions are revoked: a topic that may be deleted ends it, since the group waits"
    BATCH = "of work that is done: repeated for both"


_ENDS: Mapping[CommitPurpose, Mapping[ErrorCode, Verdict]] = {
    CommitPurpose.CALL: {ErrorCode.STALE_MEMBER_EPOCH: Verdict.COMMIT_FAILED},
    CommitPurpose.REVOCATION: {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Verdict.GIVE_UP},
    CommitPurpose.BATCH: {},
}


def may_commit(machine: GroupMachine) -> Verdict:
    """DONE when a commit may be sent; else what to tell the caller without sending anything."""
    if isinstance(machine, ConsumerMemberMachine):
        return Verdict.DONE if machine.is_in_group else Verdict.COMMIT_FAILED
    if machine.stage in IN_A_ROUND or machine.stage == Stage.READY:
        return Verdict.REBALANCING
    if machine.stage in NOT_TAKING_PART or machine.generation < 0:
        return Verdict.COMMIT_FAILED
    return Verdict.DONE


def may_auto_commit(machine: GroupMachine) -> bool:
    """Whether an automatic commit is worth a request; else the next interval's may be."""
    return machine.is_in_group if isinstance(machine, ConsumerMemberMachine) else machine.stage == Stage.STABLE


class Begun(NamedTuple):
    """The membership and the generation, or member epoch, in which a commit began. ``joins``: `ConsumerMemberMachine.joins`."""

    member_id: str = ""
    joins: int = 0
    generation: int = -1


WITHOUT_MEMBERSHIP = Begun()


def begun_in(machine: GroupMachine | None) -> Begun:
    """The membership of a commit that begins now; ``machine`` None for one without membership."""
    if machine is None:
        return WITHOUT_MEMBERSHIP
    return Begun(
        machine.member_id, machine.joins if isinstance(machine, ConsumerMemberMachine) else 0, machine.generation
    )


def outdated_error(machine: GroupMachine | None, begun: Begun, partitions: Collection[TopicPartition]) -> ErrorCode:
    """Why a commit that began then may not be sent now, when the coordinator would take any partition from the member; NONE
    where it may. A classic generation that is over has no commits: Kafka's consumer would still name it, and be refused. A
    newer member epoch takes over the commits for what is still owned. In its own epoch a user may commit what it likes."""
    if machine is None:
        return ErrorCode.NONE if begun == WITHOUT_MEMBERSHIP else ErrorCode.UNKNOWN_MEMBER_ID
    is_same_member, is_same_generation = begun.member_id == machine.member_id, begun.generation == machine.generation
    if not isinstance(machine, ConsumerMemberMachine):
        return ErrorCode.NONE if is_same_member and is_same_generation else ErrorCode.ILLEGAL_GENERATION
    is_same_member = is_same_member and begun.joins == machine.joins
    is_kept = is_same_member and (is_same_generation or set(machine.owned).issuperset(partitions))
    return ErrorCode.NONE if is_kept else ErrorCode.STALE_MEMBER_EPOCH


def verdict(machine: GroupMachine | None, code: ErrorCode, sent: tuple[str, int]) -> Verdict:
    """``sent``: member id and generation of the commit; ``machine`` None for a commit without membership."""
    if machine is None or code in OF_ANY_COMMIT:
        return verdict_without_machine(code)
    same = sent == (machine.member_id, machine.generation)
    if isinstance(machine, ConsumerMemberMachine):
        return _consumer_verdict(machine, code, same)
    rebalancing = machine.stage in IN_A_ROUND or machine.stage == Stage.READY
    if code == ErrorCode.REBALANCE_IN_PROGRESS:
        machine.rejoin("the group is rebalancing")
        return Verdict.REBALANCING
    if code in NOT_A_MEMBER:
        if same:
            machine.membership_refused(code)
        return Verdict.REBALANCING if rebalancing and not same else Verdict.COMMIT_FAILED
    if code == ErrorCode.FENCED_INSTANCE_ID and not same:
        return Verdict.REBALANCING if rebalancing else Verdict.COMMIT_FAILED
    return Verdict.GIVE_UP


def call_verdict(what: Verdict, code: ErrorCode, purpose: CommitPurpose) -> Verdict:
    """What a `verdict` means to the call."""
    return _ENDS[purpose].get(code, what) if what in RETRIED else what


def _consumer_verdict(machine: ConsumerMemberMachine, code: ErrorCode, same: bool) -> Verdict:
    """A commit in an old epoch is sent again in the present one, unless there is an `outdated_error` then."""
    if code == ErrorCode.STALE_MEMBER_EPOCH:
        return Verdict.RETRY if machine.is_in_group else Verdict.COMMIT_FAILED
    if code in NOT_A_MEMBER:
        if same and code == ErrorCode.UNKNOWN_MEMBER_ID:
            machine.membership_refused(code)
        return Verdict.COMMIT_FAILED
    return Verdict.COMMIT_FAILED if code == ErrorCode.FENCED_INSTANCE_ID and not same else Verdict.GIVE_UP
