"""A process of the laboratory that reads partitions by the consumer's machines: fetching, the validation of positions
(KIP-320), and the lookup of where to begin. What becomes of a request is the subclass's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from coterie.consuming.fetching.config import FetchConfig
from coterie.consuming.fetching.effects import LogTruncated, PartitionFailed, RefreshMetadata, SendFetch, SendValidation
from coterie.consuming.fetching.fetching import Fetching
from coterie.consuming.record import TopicPartition
from coterie.laboratory.earliest_timer import EarliestTimer
from coterie.laboratory.node.starting_offsets import StartingOffsets
from coterie.laboratory.world import World
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.wire import topic_names
from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchResponse
from coterie.wire.messages.logs.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from coterie.wire.messages.topics.metadata import MetadataResponse


class FetchingActor(ABC):
    """``_begin`` starts a life of the process, which knows nothing. ``validations``: positions that were validated."""

    fetching: Fetching

    def __init__(self, world: World, name: str, config: FetchConfig) -> None:
        self.world, self.name, self.config = world, name, config
        self.validations = 0
        self._life = 0
        self._timer = EarliestTimer(world, self.pump)

    @abstractmethod
    def _send(
        self, node_id: int | None, request: Message, version: int, received: Callable[[Message | None], None]
    ) -> None:
        """To that broker, or any; None is received where no response comes."""

    @abstractmethod
    def seek(self, tp: TopicPartition, offset: int) -> None:
        """See `StartingActor`."""

    @abstractmethod
    def _truncated(self, effect: LogTruncated) -> None:
        """The log was cut before the position."""

    def _begin(self) -> None:
        self._life += 1
        self._timer.forget()
        self._known = ClusterMetadata()
        self.fetching = Fetching(self.config, self._known)
        self._starts = StartingOffsets(self, self._known, self.config.committed_only)

    def look_up_starts(self) -> None:
        """Looks up where to begin in partitions without a position, and in those whose log does not have theirs."""
        self._starts.look_up([*self.fetching.initializing(), *self.fetching.resets_due()])

    def pump(self) -> None:
        """Carries out what is due."""
        now_ms = self.clock_ms()
        for effect in self.fetching.next(now_ms):
            match effect:
                case SendFetch():
                    self._fetch(effect)
                case SendValidation():
                    self._validate(effect)
                case RefreshMetadata():
                    self._refresh_leaders(effect)
                case PartitionFailed(partition, code):
                    raise AssertionError(f"{self.name} cannot fetch {partition}: {code.name}")
                case LogTruncated():
                    self._truncated(effect)
        self._starts.pump()
        for deadline_ms in (self.fetching.next_deadline_ms(), self._starts.next_deadline_ms()):
            if deadline_ms is not None:
                self._timer.set(max(int(-(-deadline_ms // 1)), self.world.now_ms + 1))

    # -- requests -------------------------------------------------------------------------------------------------------

    def clock_ms(self) -> int:
        """See `StartingActor`."""
        return self.world.now_ms

    def jitter(self) -> float:
        """See `StartingActor`."""
        return self.world.random.uniform(-1, 1)

    def ask(
        self,
        node_id: int | None,
        request: Message,
        received: Callable[[Message], None],
        failed: Callable[[], None],
        last: int | None = None,
    ) -> None:
        """In version ``last``, or the newest; one of the two is called later, unless this life ends before."""
        life, newest = self._life, APIS[request.api_key].advertised.last

        def ended(response: Message | None) -> None:
            if self._life != life:
                return
            if response is None:
                failed()
            else:
                received(response)
            self.pump()

        self._send(node_id, request, newest if last is None else min(newest, last), ended)

    def _fetch(self, sent: SendFetch) -> None:
        def received(response: Message) -> None:
            assert isinstance(response, FetchResponse)
            self.fetching.answered(sent, response, self.clock_ms(), self.jitter())

        def failed() -> None:
            self.fetching.failed(sent, ErrorCode.NETWORK_EXCEPTION, self.clock_ms(), self.jitter())

        self.ask(sent.node_id, sent.request, received, failed, None if sent.by_id else topic_names.FETCH)

    def _validate(self, sent: SendValidation) -> None:
        def received(response: Message) -> None:
            assert isinstance(response, OffsetForLeaderEpochResponse)
            self.validations += len(sent.positions)
            self.fetching.validated(sent, response, self.clock_ms(), self.jitter())

        def failed() -> None:
            self.fetching.validation_failed(sent, ErrorCode.NETWORK_EXCEPTION, self.clock_ms(), self.jitter())

        self.ask(sent.node_id, sent.request, received, failed)

    def _refresh_leaders(self, effect: RefreshMetadata) -> None:
        self.refresh(effect.topics, lambda: self.fetching.metadata_refreshed(effect, self.clock_ms(), self.jitter()))

    def refresh(self, topics: Iterable[str], ended: Callable[[], None]) -> None:
        """See `StartingActor`."""

        def received(response: Message) -> None:
            assert isinstance(response, MetadataResponse)
            self._known.metadata_received(response, self.clock_ms())
            ended()

        self.ask(None, self._known.metadata_request(sorted(topics)), received, ended)
