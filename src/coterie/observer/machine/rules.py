"""The rules by which the observer infers a cause that nothing states: each a named function over what is known, with its row in
RULES. A rule concludes nothing where another cause would look the same.

Commits are a member's signs of life: a coordinator takes a commit or a JoinGroup for a heartbeat, so that a session ends no
sooner than its timeout after the last one. In a group of the consumer protocol only heartbeats count, one of which came at most
their interval before the commit. Consumers with enable.auto.commit commit in poll alone: a member that does not poll
commits no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from coterie.coordinator.journal.patterns import INFERRED, OBSERVED, UNKNOWN, known_cause
from coterie.observer.machine.known import KnownGroup, KnownMember
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata

SLACK_MS = 4_000  # a heartbeat interval, in which the others rejoin, and the pause between two descriptions
FENCING_MS = 60_000

Cause = dict[str, str]


class RuleWords(NamedTuple):
    """A rule for a reader: what is ``seen``, what it concludes, and how ``sure`` that is."""

    seen: str
    concluded: str
    sure: str


RULES = {
    "alive_within_session": RuleWords(
        "the member is gone less than its session timeout after its last commit or its last generation",
        "it left: its session could not end yet",
        "certain, but for a removal by an administrator",
    ),
    "rebalance_timeout_passed": RuleWords(
        "PreparingRebalance lasted for the member's rebalance timeout, and it was in the group to the end",
        "it did not rejoin in time",
        "likely",
    ),
    "poll_interval_passed": RuleWords(
        "regular commits stopped one max.poll.interval.ms before the member was gone, much longer than a session",
        "it did not poll for max.poll.interval.ms, and left",
        "likely",
    ),
    "silent_for_session": RuleWords(
        "regular commits stopped one session timeout before the member was gone",
        "its session timed out",
        "likely; an idle member that leaves just then looks the same",
    ),
    "static_members_stay": RuleWords(
        "a static member is gone longer than its session timeout after its last commit",
        "its session timed out: static members do not leave when they stop",
        "likely",
    ),
    "partitions_added": RuleWords(
        "the members are the same, and a subscribed topic has more partitions than at the generation before",
        "the partitions of the topic changed",
        "likely",
    ),
    "topic_gained": RuleWords(
        "the members are the same, and subscriptions grew by a topic that did not exist at the generation before, or when the "
        "first of them grew by it",
        "a regular expression matches a new topic",
        "likely",
    ),
    "cooperative_second_round": RuleWords(
        "the members are the same, and the generation before revoked partitions of a cooperative group",
        "the second rebalance of KIP-429, which assigns them",
        "likely",
    ),
    "same_members": RuleWords(
        "the members and their topics are the same, and nothing else is known to have changed",
        "the leader requested a rebalance",
        "possible",
    ),
    "restarted_in_turn": RuleWords(
        "two or more members, and half of the group, went within 10 minutes, and members of their client ids came",
        "a deploy",
        "likely",
    ),
    "restarted_again": RuleWords(
        "a client came again three times within 10 minutes",
        "the member flaps",
        "likely",
    ),
    "commits_stopped_first": RuleWords(
        "in a long PreparingRebalance, one member's regular commits had stopped before it began",
        "the group waits for that member",
        "likely",
    ),
    "instance_replaced_again": RuleWords(
        "one group.instance.id was given to new member ids twice or more within a minute",
        "two processes have the same group.instance.id and fence each other",
        "likely",
    ),
    "commit_of_no_member": RuleWords(
        "a commit while the group has no members, or of a partition that none of them owns",
        "somebody else commits for the group: a tool, or a consumer without subscription",
        "likely",
    ),
}


class Departure(NamedTuple):
    """A member that is gone: between ``after_ms`` (None: not known) and ``before_ms``; the rebalance that removed it was stored
    at ``stored_ms`` and seen in PreparingRebalance from ``preparing_ms``. ``generation_ms``: when the last generation that it
    joined was stored."""

    member: KnownMember
    after_ms: int | None
    before_ms: int
    stored_ms: int
    preparing_ms: int | None
    generation_ms: int
    heartbeat_ms: int = 0  # for so long a commit may follow the last heartbeat

    @property
    def silence_ms(self) -> int | None:
        """From its last commit to when it was gone, at the most."""
        last_ms = self.member.last_commit_ms
        return None if last_ms is None else self.before_ms - last_ms


def _rebalance_timeout_passed(departure: Departure) -> str | None:
    timeout_ms, began_ms = departure.member.metadata.rebalance_timeout, departure.preparing_ms
    if not timeout_ms or timeout_ms < 0 or began_ms is None or departure.after_ms is None:
        return None
    lasted = departure.stored_ms - began_ms >= timeout_ms - SLACK_MS
    return "rebalance_timeout" if lasted and departure.stored_ms - departure.after_ms <= SLACK_MS else None


def _alive_within_session(departure: Departure) -> str | None:
    session_ms, silence_ms = departure.member.session_ms, departure.silence_ms
    if session_ms is None:
        return None
    has_committed = silence_ms is not None and silence_ms < session_ms - departure.heartbeat_ms
    # It joined that generation, a little before its assignment was stored.
    has_joined = departure.before_ms - departure.generation_ms < session_ms - SLACK_MS
    return "member_left" if has_committed or has_joined else None


def _stopped_before(departure: Departure, timeout_ms: int, early_ms: int = 0) -> bool:
    """Whether regular commits ended so long before the departure, with one pause between commits as the uncertainty, and at
    most ``early_ms`` less."""
    every_ms, silence_ms = departure.member.every_ms, departure.silence_ms
    if every_ms is None or silence_ms is None or every_ms > timeout_ms / 2:
        return False
    return timeout_ms - departure.heartbeat_ms - early_ms <= silence_ms <= timeout_ms + every_ms + SLACK_MS


def _poll_interval_passed(departure: Departure) -> str | None:
    session_ms, interval_ms = departure.member.session_ms, departure.member.metadata.rebalance_timeout
    if session_ms is None or interval_ms <= session_ms * 1.5 + SLACK_MS:
        return None
    # The last poll may be a heartbeat before the last commit.
    return "member_left" if _stopped_before(departure, interval_ms, early_ms=SLACK_MS) else None


def _silent_for_session(departure: Departure) -> str | None:
    session_ms = departure.member.session_ms
    return "session_timeout" if session_ms is not None and _stopped_before(departure, session_ms) else None


def _static_members_stay(departure: Departure) -> str | None:
    session_ms, silence_ms = departure.member.session_ms, departure.silence_ms
    is_static = departure.member.metadata.group_instance_id is not None
    is_long = session_ms is not None and silence_ms is not None and silence_ms >= session_ms - departure.heartbeat_ms
    return "session_timeout" if is_static and is_long else None


# In order; the first that concludes anything counts.
DEPARTURE_RULES: dict[str, Callable[[Departure], str | None]] = {
    "rebalance_timeout_passed": _rebalance_timeout_passed,
    "alive_within_session": _alive_within_session,
    "poll_interval_passed": _poll_interval_passed,
    "silent_for_session": _silent_for_session,
    "static_members_stay": _static_members_stay,
}


def why_departed(departure: Departure) -> Cause:
    """The cause by the first rule that concludes one; that the member is gone a record states, and no more."""
    for rule, conclude in DEPARTURE_RULES.items():
        kind = conclude(departure)
        if kind is not None:
            return cause_of(kind, departure.member.metadata, INFERRED, rule)
    return cause_of("member_gone", departure.member.metadata, UNKNOWN)


def why_same_members(group: KnownGroup, now: GroupMetadataValue, counts: dict[str, int]) -> Cause:
    """Why a generation has the members and topics of the one before. ``counts``: the partitions of those topics now."""
    grown = sorted(t for t, count in counts.items() if 0 < group.counts.get(t, 0) < count)
    if grown:
        return known_cause("topic_metadata_changed", INFERRED, "partitions_added")
    if group.is_revoking:
        return known_cause("subscription_changed", INFERRED, "cooperative_second_round")
    leader = next((m for m in now.members if m.member_id == now.leader), None)
    if leader is None:
        return known_cause("not_seen", UNKNOWN)
    return cause_of("leader_rejoined", leader, INFERRED, "same_members")


def slow_joiner(members: Iterable[KnownMember], began_ms: int) -> Cause:
    """Of a long PreparingRebalance. That it is long a description states; for whom the group waits does not stand there."""
    stopped = [m for m in members if m.every_ms is not None and (m.last_commit_ms or 0) + 2 * m.every_ms < began_ms]
    if len(stopped) != 1:
        return known_cause("slow_join", OBSERVED)
    return cause_of("slow_join", stopped[0].metadata, INFERRED, "commits_stopped_first")


def fenced(replaced_ms: Iterable[int], member: MemberMetadata, now_ms: int) -> Cause | None:
    """One instance id that two processes use."""
    recent = [time_ms for time_ms in replaced_ms if now_ms - time_ms <= FENCING_MS]
    return cause_of("instance_fenced", member, INFERRED, "instance_replaced_again") if len(recent) > 1 else None


def cause_of(kind: str, member: MemberMetadata, evidence: str, rule: str = "") -> Cause:
    """A cause of the journal that is about a member."""
    return known_cause(
        kind,
        evidence,
        rule,
        member_id=member.member_id,
        client_id=member.client_id,
        group_instance_id=member.group_instance_id,
    )
