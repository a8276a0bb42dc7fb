"""Faults of single requests: carried out and not answered, answered with an error that passes, carried out much later."""

from __future__ import annotations

from coterie.testing.faults import FaultRule
from coterie.wire.errors import ErrorCode
from coterie_conformance.stories.faults import FaultRow, StoryFaults

GROUP_APIS = ("JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit", "LeaveGroup")
TRANSACTION_APIS = ("TxnOffsetCommit", "EndTxn", "InitProducerId")
APIS = (*GROUP_APIS, *TRANSACTION_APIS, "Produce", "OffsetFetch", "FindCoordinator")
LATE_APIS = (*GROUP_APIS, *TRANSACTION_APIS)  # a connection keeps the order of its Produce requests
REFUSALS = {
    "OffsetCommit": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    "TxnOffsetCommit": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    "Heartbeat": ErrorCode.NOT_COORDINATOR,
    "JoinGroup": ErrorCode.NOT_COORDINATOR,
    "Produce": ErrorCode.NOT_LEADER_OR_FOLLOWER,
    "InitProducerId": ErrorCode.NOT_COORDINATOR,
}
DELAYS_S = (0.5, 4.0, 12.0)
MOST = 4


def _lose_responses(faults: StoryFaults) -> bool:
    rng = faults.rng
    return _add(faults, FaultRule(rng.choice(APIS), None, None, rng.randint(1, MOST), lost=True))


def _refuse(faults: StoryFaults) -> bool:
    api = faults.rng.choice(list(REFUSALS))
    return _add(faults, FaultRule(api, None, None, faults.rng.randint(1, MOST), REFUSALS[api]))


def _delay(faults: StoryFaults) -> bool:
    rng = faults.rng
    rule = FaultRule(rng.choice(LATE_APIS), None, None, rng.randint(1, MOST), delay_s=rng.choice(DELAYS_S))
    return _add(faults, rule)


def _add(faults: StoryFaults, rule: FaultRule) -> bool:
    faults.broker.faults.rules.append(rule)
    return True


ROWS = (
    FaultRow("responses_lost", 3, _lose_responses),
    FaultRow("requests_refused", 2, _refuse),
    FaultRow("requests_late", 3, _delay),
)
