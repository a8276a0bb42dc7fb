"""A scripted broker of a share group for the tests of `consuming/sharing`: responses as Apache Kafka builds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.consuming.record import TopicPartition
from coterie.consuming.sharing.acknowledgements import Acknowledgements, TopicIdPartition
from coterie.consuming.sharing.node import BATCH_OPTIMIZED, RefreshLeaders, SendShare, SharingConfig
from coterie.consuming.sharing.sharing import Sharing
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.records.batch import stamp
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import NodeEndpoint
from coterie.wire.messages.share.share_acknowledge import (
    AcknowledgedPartition,
    AcknowledgedTopic,
    CurrentLeader,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from coterie.wire.messages.share.share_fetch import (
    AcquiredRecords,
    ShareFetchableTopic,
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartitionData,
)
from coterie.wire.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
IDS = {"t": b"t" * 16, "u": b"u" * 16}


def tip(where: TopicPartition) -> TopicIdPartition:
    return TopicIdPartition(IDS[where.topic], *where)


def batch(first: int, count: int) -> bytes:
    data = bytearray(encode_batch([(0, b"k", b"v%d" % (first + n), ()) for n in range(count)]))
    stamp(data, 0, first, 0)
    return bytes(data)


def part(
    where: TopicPartition,
    acquired: Sequence[tuple[int, int, int]] = (),
    records: bytes | None = None,
    code: ErrorCode = ErrorCode.NONE,
    acknowledged: ErrorCode = ErrorCode.NONE,
    leader: tuple[int, int] = (-1, -1),
) -> tuple[TopicPartition, SharePartitionData]:
    """A partition's part of a ShareFetch response: first and last offset and delivery count of what is acquired."""
    runs = [AcquiredRecords(*run) for run in acquired]
    at = CurrentLeader(*leader)
    return where, SharePartitionData(where.partition, code, None, acknowledged, None, at, records, runs)


class SharePeer:
    """A machine whose brokers 1 and 2 lead t-0 and u-0, and t-1; requests wait in ``sent`` for their response."""

    def __init__(
        self, leaders: Mapping[TopicPartition, int] | None = None, acquire_mode: int = BATCH_OPTIMIZED
    ) -> None:
        self.known = ClusterMetadata()
        self.leads({T0: 1, T1: 2, U0: 1} if leaders is None else leaders)
        self.machine = Sharing(SharingConfig("g", "member", acquire_mode=acquire_mode), self.known)
        self.now_ms = 0.0
        self.sent: list[SendShare] = []
        self.refreshes: list[RefreshLeaders] = []

    def leads(
        self,
        leaders: Mapping[TopicPartition, int],
        ids: Mapping[str, bytes] = IDS,
        epoch: int = 0,
        brokers: Sequence[int] = (1, 2),
    ) -> None:
        topics = [
            MetadataResponseTopic(
                ErrorCode.NONE,
                name,
                ids[name],
                False,
                [
                    MetadataResponsePartition(ErrorCode.NONE, tp.partition, node, epoch, [node], [node], [])
                    for tp, node in leaders.items()
                    if tp.topic == name
                ],
            )
            for name in sorted({tp.topic for tp in leaders})
        ]
        named = [MetadataResponseBroker(node, f"b{node}", 9092) for node in brokers]
        self.known.metadata_received(MetadataResponse(0, named, "c", 1, topics), 0)

    def run(self, advance_ms: float = 0) -> list[SendShare]:
        """The requests that go out now."""
        self.now_ms += advance_ms
        new = []
        for effect in self.machine.next(self.now_ms):
            if isinstance(effect, SendShare):
                new.append(effect)
            else:
                self.refreshes.append(effect)
        self.sent += new
        deadline_ms = self.machine.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > self.now_ms, (
            "a deadline that is over would be asked for again at once"
        )
        return new

    def fetched(
        self,
        *parts: tuple[TopicPartition, SharePartitionData],
        node: int = 1,
        code: ErrorCode = ErrorCode.NONE,
        lock_ms: int = 30_000,
    ) -> None:
        sent = self._oldest(node)
        assert isinstance(sent.request, ShareFetchRequest)
        topics: dict[bytes, list[SharePartitionData]] = {}
        for where, data in parts:
            topics.setdefault(IDS[where.topic], []).append(data)
        responses = [ShareFetchableTopic(*item) for item in topics.items()]
        nodes = [NodeEndpoint(2, "b2", 9092, None)]
        self.machine.responded(sent, ShareFetchResponse(0, code, None, lock_ms, responses, nodes), self.now_ms)

    def acknowledged(
        self,
        *results: tuple[TopicPartition, ErrorCode],
        node: int = 1,
        code: ErrorCode = ErrorCode.NONE,
        leader: tuple[int, int] = (-1, -1),
    ) -> None:
        sent = self._oldest(node)
        assert isinstance(sent.request, ShareAcknowledgeRequest)
        topics: dict[bytes, list[AcknowledgedPartition]] = {}
        for where, result in results:
            row = AcknowledgedPartition(where.partition, result, None, CurrentLeader(*leader))
            topics.setdefault(IDS[where.topic], []).append(row)
        responses = [AcknowledgedTopic(*item) for item in topics.items()]
        nodes = [NodeEndpoint(2, "b2", 9092, None)]
        self.machine.responded(sent, ShareAcknowledgeResponse(0, code, None, 15_000, responses, nodes), self.now_ms)

    def disconnected(self, node: int = 1) -> None:
        self.machine.failed(self._oldest(node), ErrorCode.NETWORK_EXCEPTION, None, self.now_ms)

    def refreshed(self) -> None:
        self.machine.leaders_refreshed(self.refreshes.pop(0), self.now_ms)

    def _oldest(self, node: int) -> SendShare:
        sent = next(each for each in self.sent if each.node_id == node)
        self.sent.remove(sent)
        return sent

    def with_session(self, *parts: TopicPartition) -> None:
        """Both brokers have a session for the partitions, and nothing is acquired."""
        self.machine.assign(parts)
        self.machine.want()
        for sent in self.run():
            self.fetched(
                *(part(where) for where in parts if self.known.leader(*where) == sent.node_id), node=sent.node_id
            )
        self.machine._wanted = False

    def acks(self, where: TopicPartition, *offsets: int, kind: int = 1, node: int = 1) -> Acknowledgements:
        return Acknowledgements(tip(where), node, dict.fromkeys(offsets, kind))

    def ended(self) -> list[tuple[TopicPartition, list[int], str]]:
        ended, self.machine.ended = self.machine.ended, []
        return [(each.partition.named, sorted(each.types), (each.code or ErrorCode.NONE).name) for each in ended]


Batches = list[tuple[int, int, list[int]]]


def named(request: ShareFetchRequest | ShareAcknowledgeRequest) -> list[tuple[str, int, Batches]]:
    """The partitions of a request, with their batches of acknowledgements."""
    topics = {topic_id: name for name, topic_id in IDS.items()}
    rows: list[tuple[str, int, Batches]] = []
    for topic in request.topics:
        for p in topic.partitions:
            batches = [(b.first_offset, b.last_offset, b.acknowledge_types) for b in p.acknowledgement_batches]
            rows.append((topics.get(topic.topic_id, "?"), p.partition_index, batches))
    return rows
