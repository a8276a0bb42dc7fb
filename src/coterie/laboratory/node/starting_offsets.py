"""Where a whole consumer of the laboratory begins to read without a committed offset: the client's lookup (`OffsetLookup`) of
the logs' starts (auto.offset.reset=earliest), in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from coterie.consuming.fetching.effects import RefreshMetadata
from coterie.consuming.fetching.fetching import Fetching
from coterie.consuming.fetching.position import Position
from coterie.consuming.offset_lookup import LookupConfig, OffsetLookup, SendListOffsets
from coterie.consuming.record import TopicPartition
from coterie.laboratory.actor_commits import LOOKUP_MS
from coterie.log.time_lookup import EARLIEST_TIMESTAMP
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.list_offsets import ListOffsetsResponse


class StartingActor(Protocol):
    """The process that begins to read."""

    fetching: Fetching

    def clock_ms(self) -> int:
        """The time (ms) by the process's clock."""

    def jitter(self) -> float:
        """The randomness of a pause, between -1 and 1."""

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Reads from there on."""

    def ask(
        self, node_id: int, request: Message, received: Callable[[Message], None], failed: Callable[[], None]
    ) -> None:
        """Sends a request to that broker; one of the two is called later."""

    def refresh(self, topics: Iterable[str], ended: Callable[[], None]) -> None:
        """Asks for the topics' metadata; ``ended`` is called in any case."""


class StartingOffsets:
    """Where a consumer begins to read, of one life of its process."""

    def __init__(self, actor: StartingActor, known: ClusterMetadata, committed_only: bool) -> None:
        self._actor, self._known = actor, known
        self._config = LookupConfig(LOOKUP_MS, LOOKUP_MS, committed_only=committed_only)
        self._lookup: OffsetLookup | None = None
        self._due: dict[TopicPartition, Position] = {}

    def look_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Begins the lookup of these, unless one is under way; one that fails is begun again with a later poll."""
        if self._lookup is None:
            self._due = {tp: self._actor.fetching.positions[tp] for tp in partitions}
            if self._due:
                timestamps = dict.fromkeys(self._due, EARLIEST_TIMESTAMP)
                self._lookup = OffsetLookup(timestamps, self._config, self._known, self._actor.clock_ms())

    def pump(self) -> None:
        """Carries out what is due."""
        while self._lookup is not None:
            effects = self._lookup.next(self._actor.clock_ms())
            for effect in effects:
                self._carry_out(self._lookup, effect)
            if self._lookup.is_done:
                self._end(self._lookup)
            elif not effects:
                return

    def next_deadline_ms(self) -> float | None:
        """By the process's clock."""
        return None if self._lookup is None else self._lookup.next_deadline_ms()

    def _carry_out(self, lookup: OffsetLookup, effect: SendListOffsets | RefreshMetadata) -> None:
        actor = self._actor
        if isinstance(effect, RefreshMetadata):
            actor.refresh(effect.topics, lambda: lookup.metadata_refreshed(effect, actor.clock_ms(), actor.jitter()))
            return

        def received(response: Message) -> None:
            assert isinstance(response, ListOffsetsResponse)
            lookup.answered(effect, response, actor.clock_ms(), actor.jitter())

        def failed() -> None:
            lookup.failed(effect, ErrorCode.NETWORK_EXCEPTION, actor.clock_ms(), actor.jitter())

        actor.ask(effect.node_id, effect.request, received, failed)

    def _end(self, lookup: OffsetLookup) -> None:
        """A partition that was given up meanwhile, or given up and taken again, is left alone."""
        self._lookup = None
        for tp, offset in lookup.offsets.items():
            if self._actor.fetching.positions.get(tp) is self._due[tp]:
                self._actor.seek(tp, offset)
