"""The driver's side on a cluster of several brokers whose leaders and addresses change, with sockets of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.client.errors import KafkaError
from coterie.client.settings.settings import ClientSettings, client_settings
from coterie.pipeline.options.options import source_options
from coterie.pipeline.reading import fetching, topics
from coterie.pipeline.reading.planning import OffsetRange
from coterie.pipeline.reading.topics import TopicReader
from coterie.records.encoding import encode_batch
from coterie.testing import ErrorCode
from coterie.wire.declaration import Message
from coterie.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.logs.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from coterie.wire.messages.topics.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Address = tuple[str, int]
BOOTSTRAP, B, C = ("a", 9092), ("b", 9092), ("c", 9092)
NODES = {1: B, 2: C}


class Cluster:
    """Topic t with one partition. ``leader`` is what the metadata names, ``moves_to`` the one that it names after a request to
    a broker that leads nothing."""

    def __init__(self) -> None:
        self.leader, self.moves_to, self.away = 1, 1, set[Address]()
        self.requests: list[tuple[Address, str]] = []
        self.breaks_at: int | None = None  # the connection is lost when so many requests were sent

    def socket(self, host: str, port: int, **_: Any) -> Socket:
        if (host, port) in self.away:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"no broker answers at {host}:{port}")
        return Socket(self, (host, port))

    def respond(self, address: Address, request: Message) -> Message:
        if len(self.requests) == self.breaks_at:
            self.breaks_at = None
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection was lost")
        self.requests.append((address, type(request).__name__.removesuffix("Request")))
        is_leader = NODES.get(self.moves_to) == address
        code = ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(request, MetadataRequest):
            partition = MetadataResponsePartition(leader_id=self.leader)
            brokers = [MetadataResponseBroker(node_id, *where) for node_id, where in NODES.items()]
            self.leader = self.moves_to
            return MetadataResponse(brokers=brokers, topics=[MetadataResponseTopic(name="t", partitions=[partition])])
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(coordinators=[Coordinator("g", 1, *B)])
        if isinstance(request, ListOffsetsRequest):
            responded = ListOffsetsPartitionResponse(0, code, offset=5)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [responded])])
        assert isinstance(request, FetchRequest)
        (requested,) = request.topics[0].partitions
        batch = encode_batch([(0, None, b"value", ())], base_offset=requested.fetch_offset)
        data = PartitionData(0, code, records=batch if is_leader else b"")
        return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[data])])


class Socket:
    def __init__(self, cluster: Cluster, address: Address) -> None:
        self._cluster, self._address = cluster, address

    def version_of(self, request: type[Message]) -> int:
        return request.versions.last

    def request(self, request: Message, **_: Any) -> Message:
        return self._cluster.respond(self._address, request)

    def send(self, request: Message, **_: Any) -> Message:
        return self.request(request)

    def receive(self, response: Message) -> Message:
        return response

    def close(self) -> None:
        return


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(topics, "BrokerSocket", cluster.socket)
    monkeypatch.setattr(fetching, "BrokerSocket", cluster.socket)
    monkeypatch.setattr(fetching, "_sockets", {})
    return cluster


def reader() -> TopicReader:
    given = {"kafka.bootstrap.servers": "a:9092", "subscribe": "t", "kafka.group.id": "g"}
    quick = {"kafka.retry.backoff.ms": "1", "kafka.default.api.timeout.ms": "200"}
    return TopicReader(source_options(given | quick, streaming=False))


@pytest.mark.parametrize(
    "work",
    [lambda r: r.offsets_of({("t", 0): -1}), lambda r: r.record_bytes({("t", 0): 0})],
    ids=["offsets", "record sizes"],
)
def test_a_leader_that_moved_is_looked_up_again(cluster: Cluster, work: Callable[[TopicReader], object]) -> None:
    one = reader()
    one.partitions()
    cluster.leader = cluster.moves_to = 2
    assert work(one)
    assert cluster.requests[-1][0] == C


def test_a_partition_without_leader_is_waited_for(cluster: Cluster) -> None:
    """A broker may name no leader, and no error with it."""
    cluster.leader = -1
    assert reader().partitions() == [("t", 0)]
    assert [name for _, name in cluster.requests] == ["Metadata"] * 2


def test_brokers_that_are_known_are_asked_when_the_bootstrap_servers_are_away(cluster: Cluster) -> None:
    one = reader()
    assert one.partitions() == [("t", 0)]
    cluster.away.add(BOOTSTRAP)
    one.close()
    assert one.partitions() == [("t", 0)]
    assert cluster.requests == [(BOOTSTRAP, "Metadata"), (B, "Metadata")]


def read_records(r: OffsetRange, settings: ClientSettings) -> int:
    return sum(map(len, fetching.read_range(r, settings, with_headers=False, fail_on_data_loss=True)))


def read_batches(r: OffsetRange, settings: ClientSettings) -> int:
    return len(list(fetching.fetched(r, settings)))


@pytest.mark.parametrize("read", [read_records, read_batches])
@pytest.mark.parametrize("is_away", [False, True])
def test_a_task_follows_its_partition_to_another_leader(
    cluster: Cluster, read: Callable[[OffsetRange, ClientSettings], int], is_away: bool
) -> None:
    """The plan names the former leader, which answers that it is none, or is away."""
    cluster.leader = cluster.moves_to = 2
    cluster.away = {B} if is_away else set()
    quick = {"bootstrap.servers": "a:9092", "retry.backoff.ms": "1", "default.api.timeout.ms": "200"}
    assert read(OffsetRange("t", 0, 0, 1, *B), client_settings(quick)) == 1
    assert cluster.requests[-2:] == [(BOOTSTRAP if is_away else B, "Metadata"), (C, "Fetch")]


@pytest.mark.parametrize("read", [read_records, read_batches])
@pytest.mark.parametrize("breaks_at", range(4))
def test_a_connection_that_is_lost_between_two_fetches_loses_no_records(
    cluster: Cluster, read: Callable[[OffsetRange, ClientSettings], int], breaks_at: int
) -> None:
    """Also where the request that was to be sent ahead fails, while the records before it are still to be handed out."""
    cluster.breaks_at = breaks_at
    quick = {"bootstrap.servers": "a:9092", "retry.backoff.ms": "1", "default.api.timeout.ms": "200"}
    assert read(OffsetRange("t", 0, 0, 4, *B), client_settings(quick)) == 4


def test_ranges_of_a_partition_that_is_gone(cluster: Cluster) -> None:
    with pytest.raises(KafkaError, match="there is no t-9"):
        reader().plan_ranges({("t", 9): (0, 1)})
