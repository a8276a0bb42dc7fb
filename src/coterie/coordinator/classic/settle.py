"""Transitions that the group's state alone triggers, applied after every step until there is none (as h11's).

Theory: a rebalance has no owner. Any request, timer or loaded record can be the last thing that it waited for. Kafka
repeats the check in its handlers and in the callbacks of its timers. Here a command only records what it saw: a
rebalance is wanted, a member waits in the join phase. This module alone looks at the group and the time and decides
what follows from them.

Rule: `settle` is a function of group, time and configuration. It returns one outcome at a time, and the driver applies
it and calls again until there is none. Each outcome must therefore take away its own reason; one that does not is an
endless loop. What a command already covers must not be here, and what holds after any command must not be in a
command.

A rebalance that is wanted begins; a join phase in which everyone has joined, or whose time is over, ends; members that
owe a SyncGroup past its time leave.

What is ugly: the end of a join phase takes two calls where members were silent, since the outcome that removes them
ends the phase only if the rest of the group says so. The initial delay is a phase of its own in all but name:
PreparingRebalance with `initial_delay_left_ms`. A group of static members alone waits in it for ever, by an extension
that must not be zero (KIP-345).

Scenarios: tests/spec/initial_delay.txt, tests/spec/rejoin.txt, tests/spec/timers.txt.
"""

from __future__ import annotations

from coterie.coordinator import events as e
from coterie.coordinator.classic.leave import remove_member
from coterie.coordinator.classic.sync import empty_group_stored, sync_refused
from coterie.coordinator.outcome import CoordinatorConfig, Outcome, Reply
from coterie.coordinator.state import CAN_REBALANCE, EMPTY, PREPARING, Cause, Group, Member
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.join_group import JoinGroupResponse, JoinGroupResponseMember

# Members may have a rebalance timeout of 0, and an extended join phase must not end again at the same moment.
SHORTEST_EXTENSION_MS = 500


def settle(group: Group, now_ms: int, config: CoordinatorConfig) -> Outcome | None:
    """The next thing to do in this state at this time, or None."""
    if group.wanted and group.phase in CAN_REBALANCE:
        return _start_rebalance(group, now_ms, config)
    if group.phase == PREPARING:
        due = group.join_deadline_ms is not None and now_ms >= group.join_deadline_ms
        if group.initial_delay_left_ms is not None:
            return _end_initial_delay(group, now_ms, config) if due else None
        if due or group.everyone_joined():
            return _complete_join(group, now_ms, config)
        return None
    if group.sync_deadline_ms is not None and now_ms >= group.sync_deadline_ms:
        return _expire_sync(group)
    return None


def _start_rebalance(group: Group, now_ms: int, config: CoordinatorConfig) -> Outcome:
    causes, timeout_ms = tuple(group.wanted), group.rebalance_timeout_ms()
    if group.phase == EMPTY:
        delay_ms = config.group_initial_rebalance_delay_ms
        return Outcome([e.RebalanceStarted(causes, now_ms + delay_ms, max(timeout_ms - delay_ms, 0))])
    outcome = Outcome([e.RebalanceStarted(causes, now_ms + timeout_ms)])
    for member_id, token in group.waiting_syncs.items():
        outcome.replies.append(Reply(token, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)))
        # A waiting member could not heartbeat, so its session starts again with the response.
        outcome.deadlines.append((member_id, now_ms + group.members[member_id].session_timeout_ms))
    return outcome


def _end_initial_delay(group: Group, now_ms: int, config: CoordinatorConfig) -> Outcome:
    left_ms = group.initial_delay_left_ms
    assert left_ms is not None
    if group.joined_during_delay and left_ms > 0:
        delay_ms = min(config.group_initial_rebalance_delay_ms, left_ms)
        return Outcome([e.JoinPhaseExtended(now_ms + delay_ms, max(left_ms - delay_ms, 0))])
    return _complete_join(group, now_ms, config)


def _complete_join(group: Group, now_ms: int, config: CoordinatorConfig) -> Outcome:
    absent = [m for m in group.members.values() if m.member_id not in group.waiting_joins]
    silent = [m for m in absent if m.group_instance_id is None]
    if silent:
        # An outcome of its own: the next settle runs on the group without them.
        return Outcome([e.MemberRemoved(m.member_id, _cause("rebalance_timeout", m)) for m in silent])
    if group.members and not group.waiting_joins:
        # All who are left are static and none came back: wait on (KIP-345).
        return Outcome([e.JoinPhaseExtended(now_ms + max(group.rebalance_timeout_ms(), SHORTEST_EXTENSION_MS))])
    if not group.members:
        return Outcome([empty_group_stored(group, group.generation + 1, now_ms)])
    return _form_generation(group, now_ms, config)


def _cause(kind: str, member: Member) -> Cause:
    return Cause(kind, member.member_id, member.client_id, member.group_instance_id)


def _form_generation(group: Group, now_ms: int, config: CoordinatorConfig) -> Outcome:
    leader = group.leader
    if leader not in group.waiting_joins:
        leader = next(m for m in group.members if m in group.waiting_joins)
    assert leader is not None
    protocol = group.select_protocol()
    generation = group.generation + 1
    everyone = [
        JoinGroupResponseMember(m.member_id, m.group_instance_id, m.metadata(protocol)) for m in group.members.values()
    ]
    replies = [
        Reply(
            token,
            JoinGroupResponse(
                generation_id=generation,
                protocol_type=group.protocol_type,
                protocol_name=protocol or None,  # an empty name is null, as in Kafka
                leader=leader,
                member_id=member_id,
                members=everyone if member_id == leader else [],
            ),
        )
        for member_id, token in group.waiting_joins.items()
    ]
    sync_deadline_ms = now_ms + group.rebalance_timeout_ms() if config.sync_timeout_enabled else None
    deadlines = [(m.member_id, now_ms + m.session_timeout_ms) for m in group.members.values()]
    return Outcome([e.GenerationFormed(generation, protocol, leader, sync_deadline_ms)], replies, deadlines)


def _expire_sync(group: Group) -> Outcome:
    outcome = Outcome()
    for member_id in [m for m in group.members if m in group.pending_sync]:
        remove_member(group, member_id, _cause("sync_timeout", group.members[member_id]), outcome)
    return outcome
