"""A fetching machine with its driver in the test's hands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.consuming.effects import Effect, PartitionFailed, RefreshMetadata, SendFetch
from coterie.consuming.fetching.fetching import Fetching
from coterie.consuming.fetching.requests import FetchConfig
from coterie.consuming.record import TopicPartition
from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from coterie.wire.messages.logs.produce import NodeEndpoint
from tests.consuming.cluster import Log, SimulatedCluster


class Driven:
    """``offsets``: where each assigned partition begins. Requests are answered by `respond`, metadata by `refresh`."""

    def __init__(self, offsets: dict[TopicPartition, int], **config: object) -> None:
        self.cluster, self.known = SimulatedCluster(), ClusterMetadata(metadata_max_age_ms=0)
        self.machine = Fetching(FetchConfig(backoff=Backoff(100, 1_000), **config), self.known)  # type: ignore[arg-type]
        self.now_ms = 0.0
        self.cluster.metadata(self.known)
        self.machine.assign(offsets)
        for tp, offset in offsets.items():
            self.machine.seek(tp, offset)

    def effects(self) -> list[Effect]:
        return self.machine.next(self.now_ms)

    def sent(self) -> SendFetch:
        (effect,) = self.effects()
        assert isinstance(effect, SendFetch)
        return effect

    def failure(self) -> PartitionFailed:
        (effect,) = self.effects()
        assert isinstance(effect, PartitionFailed)
        return effect

    def serve(self, sent: SendFetch) -> FetchResponse:
        response, _ = self.cluster.fetch(sent.node_id, sent.request)
        self.machine.responded(sent, response, self.now_ms, 0.0)
        return response

    def wait(self) -> None:
        """Until the machine's deadline."""
        deadline_ms = self.machine.next_deadline_ms()
        assert deadline_ms is not None
        assert deadline_ms > self.now_ms
        self.now_ms = deadline_ms

    def refresh(self) -> None:
        (effect,) = self.effects()
        assert isinstance(effect, RefreshMetadata)
        self.cluster.metadata(self.known, effect.topics)
        self.machine.metadata_refreshed(effect, self.now_ms, 0.0)

    def offsets(self, limit: int = 100) -> dict[TopicPartition, list[int]]:
        return {tp: [r.offset for r in records] for tp, records in self.machine.take(limit).items()}

    def respond(
        self,
        sent: SendFetch,
        rows: Mapping[TopicPartition, PartitionData],
        endpoints: Iterable[NodeEndpoint] = (),
        **fields: int,
    ) -> bool:
        """With a response made by hand; ``fields`` of the whole response. Whether there is something new for a poll."""
        topics: dict[str, FetchableTopicResponse] = {}
        for (topic, index), row in rows.items():
            row.partition_index = index
            topics.setdefault(topic, FetchableTopicResponse(topic)).partitions.append(row)
        response = FetchResponse(responses=list(topics.values()), node_endpoints=list(endpoints))
        for name, value in fields.items():
            setattr(response, name, value)
        return self.machine.responded(sent, response, self.now_ms, 0.0)

    def sent_to(self) -> dict[int, SendFetch]:
        """The requests that are due, by broker; nothing else is."""
        effects = self.effects()
        sent = {effect.node_id: effect for effect in effects if isinstance(effect, SendFetch)}
        assert len(sent) == len(effects)
        return sent


def records(count: int, first: int = 0, **offsets: int) -> PartitionData:
    """A row of a response."""
    log = Log(end=first)
    if count:
        log.plain(count)
    row = PartitionData(high_watermark=100, records=log.read(first, 10_000))
    for name, offset in offsets.items():
        setattr(row, name, offset)
    return row


def failed(code: ErrorCode) -> PartitionData:
    return PartitionData(error_code=code, high_watermark=100)


def buffered(*partitions: TopicPartition, count: int = 3, **config: object) -> Driven:
    """So many records of each, which no poll has taken."""
    driven = Driven(dict.fromkeys(partitions, 0), **config)
    for sent in driven.sent_to().values():
        driven.respond(sent, {tp: records(count) for tp in sent.wanted})
    return driven
