"""A fetching machine with its driver in the test's hands."""

from __future__ import annotations

from coterie.backoff import Backoff
from coterie.cluster_metadata import ClusterMetadata
from coterie.consuming.fetch_effects import Effect, PartitionFailed, RefreshMetadata, SendFetch
from coterie.consuming.fetching import FetchConfig, Fetching
from coterie.consuming.record import TopicPartition
from coterie.wire.messages.fetch import FetchResponse
from tests.consuming.cluster import SimulatedCluster


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

    def respond(self, sent: SendFetch) -> FetchResponse:
        response, _ = self.cluster.fetch(sent.node_id, sent.request)
        self.machine.answered(sent, response, self.now_ms, 0.0)
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
