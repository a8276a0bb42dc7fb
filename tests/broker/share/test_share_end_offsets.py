"""Look-ups of the ends of partitions for the lag of share groups, in a cluster whose other brokers a test plays. Behaviour as
of Kafka's NetworkPartitionMetadataClientTest."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from coterie.broker.cluster.cluster_view import ClusterView, LiveBroker
from coterie.broker.share_state.end_offsets import ATTEMPTS, EndOffsets, Ends
from coterie.replication.states import PartitionState
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

E = ErrorCode


class Peers:
    """The other brokers: what they respond, one after another; None for no response. Its pauses end at once."""

    def __init__(self, *responses: ListOffsetsResponse | None) -> None:
        self.responses = list(responses)
        self.sent: list[tuple[int, list[tuple[str, int]]]] = []
        self.pauses_s: list[float] = []
        self.partition: Callable[[str, int], Any] | None = None  # of broker 1
        self.view = ClusterView(1, is_alone=False)
        self.view.live = {n: LiveBroker(n, "h", n) for n in (1, 2, 3)}
        for partition, leader in enumerate((2, 2, 3, 4)):
            self.view.states["t", partition] = PartitionState(leader, 0, (leader,), 0, 0, (leader,))

    def send(
        self, leader: int, request: ListOffsetsRequest, kind: Any, version: int, responded: Callable[..., None]
    ) -> None:
        self.sent.append((leader, [(t.name, p.partition_index) for t in request.topics for p in t.partitions]))
        assert {(p.timestamp, p.current_leader_epoch) for t in request.topics for p in t.partitions} == {(-1, -1)}
        responded(self.responses.pop(0))

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.pauses_s.append(delay_s)
        call()

    def look_up(self, *partitions: int) -> dict[int, int | ErrorCode]:
        ends: list[Ends] = []
        topics = SimpleNamespace(in_cluster=True, partition=self.partition)
        offsets = EndOffsets(topics, self.view, self)  # type: ignore[arg-type]
        offsets.peers = self  # type: ignore[assignment]
        offsets.look_up([("t", partition) for partition in partitions], ends.append)
        (result,) = ends
        return {p: end.code if isinstance(end, Refusal) else end for (_, p), end in result.items()}


def response(*rows: tuple[int, int, int]) -> ListOffsetsResponse:
    partitions = [ListOffsetsPartitionResponse(index, code, offset=offset) for index, code, offset in rows]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", partitions)])


def test_one_request_for_each_leader() -> None:
    peers = Peers(response((0, 0, 10), (1, E.NOT_LEADER_OR_FOLLOWER, -1)), response())
    ends = peers.look_up(0, 1, 2, 3, 4)
    assert peers.sent == [(2, [("t", 0), ("t", 1)]), (3, [("t", 2)])]
    assert ends == {
        0: 10,
        1: E.NOT_LEADER_OR_FOLLOWER,
        2: E.UNKNOWN_TOPIC_OR_PARTITION,  # the response lacks it
        3: E.LEADER_NOT_AVAILABLE,  # broker 4 is not there
        4: E.LEADER_NOT_AVAILABLE,  # not announced
    }


def test_a_leader_without_a_response_is_requested_again() -> None:
    peers = Peers(response((0, 0, 5)), None, None, response((2, 0, 7)))
    assert peers.look_up(0, 2) == {0: 5, 2: 7}
    assert [leader for leader, _ in peers.sent] == [2, 3, 3, 3]
    assert peers.pauses_s == [1, 2]
    peers = Peers(*[None] * ATTEMPTS)
    assert peers.look_up(2) == {2: E.NETWORK_EXCEPTION}
    assert peers.pauses_s == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("not_led", "not_available", "end"),
    [
        (None, None, 12),
        (E.NOT_LEADER_OR_FOLLOWER, None, E.NOT_LEADER_OR_FOLLOWER),
        (None, E.OFFSET_NOT_AVAILABLE, E.OFFSET_NOT_AVAILABLE),
    ],
)
def test_a_partition_that_this_broker_leads(
    not_led: ErrorCode | None, not_available: ErrorCode | None, end: int | ErrorCode
) -> None:
    """By what it has itself; the view may be ahead of its role, and its high watermark behind the epoch."""

    def refusing(code: ErrorCode | None) -> Callable[[], None]:
        def check() -> None:
            if code is not None:
                raise Refusal(code)

        return check

    log = SimpleNamespace(high_watermark=12)
    own = SimpleNamespace(check_leader=refusing(not_led), check_high_watermark=refusing(not_available), log=log)
    peers = Peers()
    peers.view.states["t", 5] = PartitionState(1, 0, (1,), 0, 0, (1,))
    peers.partition = lambda topic, index: own
    assert peers.look_up(5) == {5: end}
    assert peers.sent == []


def test_nothing_is_looked_up() -> None:
    assert Peers().look_up() == {}
