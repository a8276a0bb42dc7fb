"""The fixture's hands on groups of the consumer protocol (KIP-848), whose members are confluent-kafka's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.testing import ErrorCode, LocalBroker
from tests.client.consumer.test_consumer_protocol import Crew


@pytest.fixture
def crew(coterie_broker: LocalBroker) -> Iterator[Crew]:
    coterie_broker.create_topic("t", 6)
    members = Crew(coterie_broker)
    yield members
    for consumer in members.consumers:
        consumer.close()


def test_until_stable_waits_for_each_members_assignment(coterie_broker: LocalBroker, crew: Crew) -> None:
    """With the broker's own defaults of the fixture, which are quick; a member whose heartbeats are held keeps the group from
    it, and the error names the member and the partitions that it has not released."""
    crew.join(**{"client.id": "one"})
    crew.poll_until(lambda: crew.sizes() == [6])
    first = coterie_broker.until_stable("g", members=1)
    with coterie_broker.hold("ConsumerGroupHeartbeat", client_id="one", times=10**6) as held:
        coterie_broker.until_held(held)
        crew.join(**{"client.id": "two"})
        crew.poll_until(lambda: len(coterie_broker.members("g")) == 2)
        with pytest.raises(
            TimeoutError, match=r"group g is not Stable with 2 members after 0.2 s. It is Reconciling.*t-"
        ):
            coterie_broker.until_stable("g", members=2, timeout_s=0.2)
        assert crew.sizes() == [0, 6]
        # On a busy machine librdkafka gives up after a second, and then asks for no full response.
        is_lost = len(held.held) > 1
    if is_lost:
        coterie_broker.expire("g", "one")
    crew.poll_until(lambda: crew.sizes() == [3, 3])
    assert coterie_broker.until_stable("g", members=2) >= first + 1


def test_a_member_whose_session_ends_is_removed_and_joins_again(coterie_broker: LocalBroker, crew: Crew) -> None:
    crew.join(**{"client.id": "one"})
    crew.join(**{"client.id": "two"})
    crew.poll_until(lambda: crew.sizes() == [3, 3])
    before = coterie_broker.until_stable("g", members=2)
    with coterie_broker.hold("ConsumerGroupHeartbeat", client_id="two", times=10**6):
        coterie_broker.expire("g", "two")
        assert list(coterie_broker.members("g").values()) == ["one"]
        crew.poll_until(lambda: len(crew.consumers[0].assignment()) == 6)
        assert coterie_broker.until_stable("g", members=1) == before + 1
    crew.poll_until(lambda: crew.sizes() == [3, 3])
    assert coterie_broker.until_stable("g", members=2) == before + 2
    with pytest.raises(LookupError, match="group g has no member three"):
        coterie_broker.expire("g", "three")


def test_a_member_that_is_fenced_comes_back(coterie_broker: LocalBroker, crew: Crew) -> None:
    lost: list[int] = []
    member = crew.join(**{"client.id": "one"})
    member.subscribe(["t"], on_lost=lambda _, partitions: lost.extend(p.partition for p in partitions))
    crew.poll_until(lambda: crew.sizes() == [6])
    coterie_broker.fail("ConsumerGroupHeartbeat", ErrorCode.FENCED_MEMBER_EPOCH, group="g")
    crew.poll_until(lambda: len(lost) == 6)
    crew.poll_until(lambda: crew.sizes() == [6])
    coterie_broker.until_stable("g", members=1)


def test_a_lost_response_and_a_coordinator_that_moves_cost_no_partition(
    coterie_broker: LocalBroker, crew: Crew
) -> None:
    crew.join(**{"client.id": "one"})
    crew.poll_until(lambda: crew.sizes() == [6])
    epoch = coterie_broker.until_stable("g", members=1)
    heartbeats = coterie_broker.requested("ConsumerGroupHeartbeat")
    coterie_broker.fail("ConsumerGroupHeartbeat", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=2)
    coterie_broker.move_coordinator("g")
    crew.poll_until(lambda: coterie_broker.requested("ConsumerGroupHeartbeat") > heartbeats + 3)
    assert crew.sizes() == [6]
    assert coterie_broker.until_stable("g", members=1) == epoch


def test_the_clock_ends_sessions(coterie_broker: LocalBroker, crew: Crew) -> None:
    crew.join(**{"client.id": "one"})
    crew.poll_until(lambda: crew.sizes() == [6])
    with coterie_broker.hold("ConsumerGroupHeartbeat", times=10**6):
        coterie_broker.jump(45_001)
        assert coterie_broker.members("g") == {}
    crew.poll_until(lambda: len(coterie_broker.members("g")) == 1 and crew.sizes() == [6])
