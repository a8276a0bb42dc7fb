"""The faults of a story's broker: what is late, and what no broker refuses so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.certify.client.feeding import Feeder
from coterie.certify.client.history import ClientEvent, ClientEventKind
from coterie.certify.client.observed_faults import ObservedFaults
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.awaiting import until_in_thread


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    running = LocalBroker()
    running.faults = ObservedFaults("t", lambda kind, partition, offset: ClientEvent(0, ClientEventKind(kind)))
    with running:
        running.create_topic("t")
        yield running


def test_a_delayed_commit_is_carried_out_at_once(broker: LocalBroker) -> None:
    """What its client commits after it has given it up is not undone later."""
    broker.delay("OffsetCommit", 60_000)
    socket = BrokerSocket(broker.host, broker.port)
    topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 7)])]
    socket.send(OffsetCommitRequest("g", -1, "", None, -1, topics), highest=8)
    until_in_thread(lambda: broker.committed("g") == {("t", 0): 7}, "the commit")
    socket.abort()


@pytest.mark.parametrize("stable", [True, False])
def test_offsets_are_unstable_for_requests_that_require_stable_ones(broker: LocalBroker, stable: bool) -> None:
    rule = broker.fail("OffsetFetch", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    socket = BrokerSocket(broker.host, broker.port)
    response = socket.request(OffsetFetchRequest("g", None, [OffsetFetchRequestGroup("g")], stable))
    assert rule.times == (0 if stable else 1)
    assert response.groups[0].error_code == 0
    socket.close()


def test_the_ports_of_clients_are_known_but_for_our_own() -> None:
    faults = ObservedFaults("t", lambda kind, partition, offset: ClientEvent(0, ClientEventKind(kind)))
    broker = LocalBroker(brokers=2)
    broker.faults = faults
    with broker:
        broker.create_topic("t")
        feeder = Feeder(broker.bootstrap_servers, "t", 1)
        feeder.feed(1)
        assert faults.ports == set()
        socket = BrokerSocket(broker.host, broker.port)
        socket.request(OffsetFetchRequest("g", None, [OffsetFetchRequestGroup("g")]))
        assert len(faults.ports) == 1
        socket.close()
        feeder.close()
