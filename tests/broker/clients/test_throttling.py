"""Client quotas act: a response says how long its client is throttled, and the connection is muted for as long (KIP-219)."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.clients.quotas import ClientQuotas
from coterie.broker.clients.throttling import EXEMPT, Throttling
from coterie.broker.connections import accepted_connection
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.requests.calls import Call, ClientConnection
from coterie.laboratory.world import World
from coterie.log.filesystem import MemoryFileSystem
from coterie.quotas import Entity
from coterie.records.encoding import encode_batch
from coterie.wire.codec import decode
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import encode_request
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from coterie.wire.messages.topics.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tests.broker.access.restricted_broker import RestrictedBroker
from tests.broker.frames_broker import FakeTransport, FramesBroker

BATCH = encode_batch([(1_700_000_000_000, b"k", b"v" * 30_000, ())])
APP: Entity = (("client-id", "app"),)
PRODUCE = ProduceRequest(None, 1, 1_000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, BATCH)])])
FETCH = FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=100_000)])])
HEARTBEAT = HeartbeatRequest("g", 1, "m")


class Client:
    """A client's connection to a broker in virtual time."""

    def __init__(self, broker: FramesBroker, client_id: str = "app") -> None:
        self.client_id, self.world = client_id, broker.world
        self.transport = FakeTransport()
        self.accepted = AcceptedConnection(broker)
        self.accepted.connection_made(self.transport)

    def send(self, request: Message, version: int) -> None:
        self.transport.written.clear()
        self.accepted.data_received(encode_request(1, self.client_id, request, version))

    def send_long(self, request: Message, version: int) -> None:
        """One that takes several turns, of no time."""
        self.send(request, version)
        self.world.run_until(self.world.now_ms)

    def response(self, response: type[Message], version: int) -> Any:
        """That was written."""
        (data,) = self.transport.written
        message, _ = decode(response, data[9 if version in response.flexible else 8 :], version)
        return message

    def throttle_ms(self, response: type[Message], version: int) -> int:
        return int(self.response(response, version).throttle_time_ms)

    def fetched(self, request: FetchRequest) -> FetchResponse:
        self.send(request, 11)
        response: FetchResponse = self.response(FetchResponse, 11)
        return response


def records(response: FetchResponse) -> bytes:
    return b"".join(bytes(data.records or b"") for topic in response.responses for data in topic.partitions)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(accepted_connection, "MAX_TURN_S", 60.0)  # of real time
    return World(1)


@pytest.fixture
def broker(world: World) -> FramesBroker:
    return FramesBroker(world)


def test_a_producer_over_its_rate_is_muted_for_the_time_that_it_is_told(world: World, broker: FramesBroker) -> None:
    broker.clients.quotas.alter({APP: {"producer_byte_rate": 1_000.0}})
    client, other = Client(broker), Client(broker, "other")
    client.send(PRODUCE, 7)
    throttle_ms = client.throttle_ms(ProduceResponse, 7)
    assert 19_000 < throttle_ms < 21_000  # 30,000 bytes over ten seconds are three times the rate
    client.send(HEARTBEAT, 3)
    assert client.transport.written == []
    other.send(HEARTBEAT, 3)
    assert other.throttle_ms(HeartbeatResponse, 3) == 0
    world.run_until(world.now_ms + throttle_ms - 100)
    assert client.transport.written == []
    world.run_until(world.now_ms + 200)
    assert client.throttle_ms(HeartbeatResponse, 3) == 0


def test_a_consumer_over_its_rate_has_no_records_and_is_muted(world: World, broker: FramesBroker) -> None:
    """KafkaApis.handleFetchRequest: what is not sent does not count, and the session does not take it for read."""
    producer, consumer = Client(broker, "producer"), Client(broker)
    producer.send(PRODUCE, 7)
    broker.clients.quotas.alter({APP: {"consumer_byte_rate": 4_000.0}})  # 40,000 bytes in ten seconds
    first = consumer.fetched(FetchRequest(session_epoch=0, topics=FETCH.topics))
    assert (first.throttle_time_ms, len(records(first))) == (0, len(BATCH))
    again = FetchRequest(session_id=first.session_id, session_epoch=1, topics=FETCH.topics)  # from offset 0
    throttled = consumer.fetched(again)
    assert 4_500 < throttled.throttle_time_ms < 5_500  # 60,000 bytes are half again the rate
    assert (throttled.error_code, throttled.session_id, throttled.responses) == (0, first.session_id, [])
    consumer.send(HEARTBEAT, 3)
    assert consumer.transport.written == []
    world.run_until(world.now_ms + throttled.throttle_time_ms)
    assert consumer.throttle_ms(HeartbeatResponse, 3) == 0
    world.run_until(world.now_ms + 10_000)
    once_more = FetchRequest(session_id=first.session_id, session_epoch=2)
    assert len(records(consumer.fetched(once_more))) == len(BATCH)


def test_a_response_has_at_most_what_the_quota_allows_in_its_windows(world: World, broker: FramesBroker) -> None:
    producer, consumer = Client(broker, "producer"), Client(broker)
    for _ in range(3):
        producer.send(PRODUCE, 7)
    broker.clients.quotas.alter({APP: {"consumer_byte_rate": 7_000.0}})
    assert consumer.fetched(FETCH).throttle_time_ms < 50  # the bytes about the records are over it
    world.run_until(world.now_ms + 50)
    fetched = consumer.fetched(FETCH)
    assert len(BATCH) * 2 <= len(records(fetched)) <= 70_000
    assert fetched.throttle_time_ms == 0


def topics_created(client: Client, version: int, *sizes: int) -> CreateTopicsResponse:
    topics = [CreatableTopic(f"new-{version}-{n}-{size}", size, 1) for n, size in enumerate(sizes)]
    client.send_long(CreateTopicsRequest(topics), version)
    response: CreateTopicsResponse = client.response(CreateTopicsResponse, version)
    return response


def test_partitions_are_created_at_a_rate(world: World, broker: FramesBroker) -> None:
    """KIP-599, testStrictControllerMutationQuota: 11 at once at a rate of one; the topic that overdraws is created."""
    broker.clients.quotas.alter({APP: {"controller_mutation_rate": 1.0}})
    client = Client(broker)
    response = topics_created(client, 6, 10, 5, 1, 1)
    exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert [topic.error_code for topic in response.topics] == [0, 0, exceeded, exceeded]
    assert response.throttle_time_ms == 4_000  # of 15 partitions, four more than the eleven
    client.send(HEARTBEAT, 3)
    assert client.transport.written == []
    world.run_until(world.now_ms + 4_000)
    assert client.throttle_ms(HeartbeatResponse, 3) == 0
    created = topics_created(client, 6, 1)
    assert (created.topics[0].error_code, created.throttle_time_ms) == (0, 0)


def test_older_requests_are_carried_out_and_throttled(broker: FramesBroker) -> None:
    """testPermissiveControllerMutationQuota"""
    broker.clients.quotas.alter({APP: {"controller_mutation_rate": 1.0}})
    response = topics_created(Client(broker), 4, 12, 12)
    assert [topic.error_code for topic in response.topics] == [0, 0]
    assert response.throttle_time_ms == 13_000


def test_a_request_that_only_checks_is_no_mutation(broker: FramesBroker) -> None:
    broker.clients.quotas.alter({APP: {"controller_mutation_rate": 1.0}})
    client = Client(broker)
    for _ in range(3):
        client.send_long(CreateTopicsRequest([CreatableTopic("checked", 12, 1)], validate_only=True), 6)
        checked = client.response(CreateTopicsResponse, 6)
        assert (checked.topics[0].error_code, checked.throttle_time_ms) == (0, 0)


def test_partitions_are_added_and_deleted_at_a_rate(world: World, broker: FramesBroker) -> None:
    client = Client(broker)
    for number in range(3):
        assert topics_created(client, number + 4, 12).throttle_time_ms == 0
    broker.clients.quotas.alter({APP: {"controller_mutation_rate": 1.0}})
    grown = [CreatePartitionsTopic("new-4-0-12", 24), CreatePartitionsTopic("new-5-0-12", 24)]
    client.send_long(CreatePartitionsRequest(grown, 1_000), 3)
    response = client.response(CreatePartitionsResponse, 3)
    exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert [result.error_code for result in response.results] == [0, exceeded]
    assert response.throttle_time_ms == 1_000
    world.run_until(world.now_ms + 60_000)
    client.send_long(DeleteTopicsRequest(topic_names=["new-4-0-12", "new-6-0-12"]), 5)
    deleted = client.response(DeleteTopicsResponse, 5)
    assert [result.error_code for result in deleted.responses] == [0, exceeded]
    assert deleted.throttle_time_ms == 13_000


def test_the_time_of_requests_is_throttled_for_a_window_at_most(broker: FramesBroker) -> None:
    broker.clients.quotas.alter({APP: {"request_percentage": 1e-9}})
    client = Client(broker)
    client.send(HEARTBEAT, 3)
    assert client.throttle_ms(HeartbeatResponse, 3) == 1_000


def test_a_consumer_over_its_time_has_no_records(broker: FramesBroker) -> None:
    """KafkaApis.handleFetchRequest: whichever of the two quotas it is; the bytes do not count then."""
    Client(broker, "producer").send(PRODUCE, 7)
    quotas = broker.clients.quotas
    quotas.alter({APP: {"request_percentage": 1e-9, "consumer_byte_rate": 6_000.0}})
    throttled = Client(broker).fetched(FETCH)
    assert (throttled.throttle_time_ms, throttled.responses) == (1_000, [])
    quotas.alter({APP: {"request_percentage": None}})
    assert len(records(Client(broker).fetched(FETCH))) == len(BATCH)


def test_a_quota_that_is_removed_throttles_no_more(broker: FramesBroker) -> None:
    broker.clients.quotas.alter({APP: {"producer_byte_rate": 1.0}})
    broker.clients.quotas.alter({APP: {"producer_byte_rate": None}})
    client = Client(broker)
    client.send(PRODUCE, 7)
    assert client.throttle_ms(ProduceResponse, 7) == 0


def test_connections_of_one_address_are_bounded(world: World) -> None:
    """testMaxConnectionsPerIp."""
    broker = FramesBroker(world, max_connections_per_ip="2")
    clients = [Client(broker) for _ in range(3)]
    assert [client.transport.closed for client in clients] == [False, False, True]
    clients[0].accepted.connection_lost(None)
    assert not Client(broker).transport.closed


def test_no_limit_of_connections_by_default(world: World, broker: FramesBroker) -> None:
    """testNoConnectionLimitsByDefault, and max.connections of them: testMaxBrokerWideConnectionLimit."""
    assert not any(Client(broker).transport.closed for _ in range(200))
    bounded = FramesBroker(world, max_connections="3")
    clients = [Client(bounded) for _ in range(4)]
    assert [client.transport.closed for client in clients] == [False, False, False, True]
    clients[1].accepted.connection_lost(None)
    assert not Client(bounded).transport.closed


def test_an_address_may_have_another_number_of_connections(world: World) -> None:
    overrides = "10.0.0.7:0, 127.0.0.1:3, some.host:1"
    broker = FramesBroker(world, max_connections_per_ip="1", max_connections_per_ip_overrides=overrides)
    assert [Client(broker).transport.closed for _ in range(4)] == [False, False, False, True]


def test_connections_that_come_too_fast_are_closed(world: World, broker: FramesBroker) -> None:
    """testIpConnectionRateWhenActualRateBelowLimit, testIpConnectionRateWhenActualRateAboveLimit."""
    broker.clients.quotas.alter({(("ip", None),): {"connection_creation_rate": 1.0}})
    closed = [Client(broker).transport.closed for _ in range(12)]
    assert closed == [False] * 10 + [True] * 2
    world.run_until(world.now_ms + 30_000)
    assert not Client(broker).transport.closed


def test_refused_connections_do_not_count(world: World, broker: FramesBroker) -> None:
    """testRejectedIpConnectionUnrecordedFromConnectionRateQuotas: an address that goes on trying has its rate nonetheless."""
    broker.clients.quotas.alter({(("ip", None),): {"connection_creation_rate": 1.0}})
    accepted = 0
    for _ in range(400):
        world.run_until(world.now_ms + 100)
        accepted += not Client(broker).transport.closed
    assert 40 <= accepted <= 52  # one a second for 40 s, and the first burst


def test_the_rate_of_an_address_changes_while_it_connects(world: World, broker: FramesBroker) -> None:
    """testIpConnectionRateMetricUpdate, testEnforcedIpConnectionRateQuotaUpdate. testResponseThrottleTime."""

    def accepted(count: int) -> int:
        return sum(not Client(broker).transport.closed for _ in range(count))

    assert accepted(30) == 30
    broker.clients.quotas.alter({(("ip", None),): {"connection_creation_rate": 1.0}})
    assert accepted(30) == 10
    (host,) = {connection.connection.host.lstrip("/") for connection in broker.connections}
    broker.clients.quotas.alter({(("ip", host),): {"connection_creation_rate": 2.0}})
    assert accepted(30) == 10
    broker.clients.quotas.alter({(("ip", host),): {"connection_creation_rate": None}})
    assert accepted(5) == 0
    broker.clients.quotas.alter({(("ip", None),): {"connection_creation_rate": None}})
    assert accepted(5) == 5


def test_the_longer_of_two_quotas_throttles(broker: FramesBroker) -> None:
    """testResponseThrottleTimeWhenBothProduceAndRequestQuotasViolated,
    testResponseThrottleTimeWhenBothFetchAndRequestQuotasViolated: that of bytes, here longer than a window."""
    writer, reader = Client(broker, "writer"), Client(broker, "reader")
    for name, key in (("writer", "producer_byte_rate"), ("reader", "consumer_byte_rate")):
        broker.clients.quotas.alter({(("client-id", name),): {"request_percentage": 1e-9, key: 1_000.0}})
    writer.send(PRODUCE, 7)
    assert writer.throttle_ms(ProduceResponse, 7) > 1_000
    reader.send(FETCH, 11)
    assert reader.throttle_ms(FetchResponse, 11) > 1_000


def test_a_client_with_a_large_quota_is_not_throttled(broker: FramesBroker) -> None:
    """testUnthrottledClient: the default is for the others."""
    broker.clients.quotas.alter(
        {(("client-id", None),): {"request_percentage": 1e-9}, APP: {"request_percentage": 2e9}}
    )
    client, other = Client(broker), Client(broker, "other")
    client.send(HEARTBEAT, 3)
    other.send(HEARTBEAT, 3)
    assert (client.throttle_ms(HeartbeatResponse, 3), other.throttle_ms(HeartbeatResponse, 3)) == (0, 1_000)


def test_what_brokers_send_is_not_throttled(broker: FramesBroker) -> None:
    """testExemptRequestTime."""
    broker.clients.quotas.alter({APP: {"request_percentage": 1e-9}})
    call = Call(0, "app", ClientConnection("/127.0.0.1"))
    throttling = broker.clients.throttling
    assert {key: throttling.handled(key, call, 1.0, 0) for key in EXEMPT} == dict.fromkeys(EXEMPT, 0)
    assert throttling.handled(HeartbeatRequest.api_key, call, 1.0, 0) == 1_000


def test_a_request_that_is_denied_is_throttled(world: World) -> None:
    """testUnauthorizedThrottle."""
    broker = RestrictedBroker()
    broker.clients.quotas.alter({APP: {"request_percentage": 1e-9}})
    client = Client(broker)
    client.send(HEARTBEAT, 3)
    (data,) = client.transport.written
    response, _ = decode(HeartbeatResponse, data[8:], 3)
    assert (response.error_code, response.throttle_time_ms) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, 1_000)


def test_a_fetch_has_at_most_the_bytes_of_all_windows() -> None:
    """testGetMaxValueInQuotaWindowWithNonDefaultQuotaWindow: of four samples three are full windows."""
    quotas = ClientQuotas(MemoryFileSystem())
    throttling, call = Throttling(quotas, windows=4), Call(11, "app", ClientConnection("/10.0.0.7"))
    assert throttling.fetched_at_most(call, 1_000_000) == 1_000_000
    quotas.alter({APP: {"consumer_byte_rate": 10.0}})
    assert throttling.fetched_at_most(call, 1_000_000) == 30
    quotas.alter({APP: {"consumer_byte_rate": None}})
    assert throttling.fetched_at_most(call, 1_000_000) == 1_000_000
