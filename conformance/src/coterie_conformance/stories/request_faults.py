"""Faults of single requests: carried out and not answered, answered with an error that passes, carried out much later."""

from __future__ import annotations

from functools import partial

from coterie.coordinator.transactions.state import BUMPS_FROM
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
# Of EndTxn before KIP-890: after its client's timeout it ends the next transaction, of the same epoch, as in Apache Kafka.
LONGEST_END_S = 0.5


def _lose_responses(faults: StoryFaults) -> bool:
    rng = faults.rng
    return _add(faults, FaultRule(rng.choice(APIS), None, None, rng.randint(1, MOST), lost=True))


def _refuse(faults: StoryFaults) -> bool:
    api = faults.rng.choice(list(REFUSALS))
    return _add(faults, FaultRule(api, None, None, faults.rng.randint(1, MOST), REFUSALS[api]))


def _delay(faults: StoryFaults, *, bumps_epochs: bool) -> bool:
    rng = faults.rng
    api, count, delay_s = rng.choice(LATE_APIS), rng.randint(1, MOST), rng.choice(DELAYS_S)
    if api == "EndTxn" and not bumps_epochs:
        delay_s = min(delay_s, LONGEST_END_S)
    return _add(faults, FaultRule(api, None, None, count, delay_s=delay_s))


def _add(faults: StoryFaults, rule: FaultRule) -> bool:
    faults.broker.faults.rules.append(rule)
    return True


def request_rows(transaction_version: int) -> list[FaultRow]:
    """Of a story with that level of transaction.version."""
    return [
        FaultRow("responses_lost", 3, _lose_responses),
        FaultRow("requests_refused", 2, _refuse),
        FaultRow("requests_late", 3, partial(_delay, bumps_epochs=transaction_version >= BUMPS_FROM)),
    ]
