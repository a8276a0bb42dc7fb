"""A broker in virtual time whose share coordinator refuses what a test wants, or has it wait; requests go to its handlers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from coterie.broker.handlers import HANDLERS
from coterie.broker.requests.calls import Call, ClientConnection
from coterie.broker.requests.pending import Pending
from coterie.broker.share_state.state_requests import refused_row, response_to, rows_of
from coterie.laboratory.world import World
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.retention import delete_records
from coterie.records.encoding import encode_batch
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.initialize_share_group_state import (
    InitializedPartition,
    InitializedTopic,
    InitializeShareGroupStateRequest,
)
from coterie.wire.messages.share.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from coterie.wire.messages.share.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.frames_broker import FramesBroker

Responded = Callable[[Any], None]


class FramedShare(FramesBroker):
    """Topics t, of two partitions, and u exist. ``refused``: by request, the partitions that its share coordinator refuses, and
    with which error; ``held``: requests of these types wait until `release`; ``responses``: of the next requests,
    whatever they are."""

    def __init__(self, memory: MemoryFileSystem | None = None, /, **given: str) -> None:
        super().__init__(World(1), memory, group_share_assignment_interval_ms="0", **given)
        self.refused: dict[type[Message], dict[int, ErrorCode]] = {}
        self.held: set[type[Message]] = set()
        self.requests: list[Any] = []
        self.responses: list[Message] = []
        self.client_connections: dict[str, ClientConnection] = {}
        self._waiting: list[tuple[Any, Responded]] = []
        self.share.persister = self  # type: ignore[assignment]
        self.share_persister.send = self.send  # type: ignore[method-assign]
        self.groups.persist = self.send

    def topic(self, name: str = "t") -> bytes:
        return self.topics.by_name[name].topic_id

    def send(self, request: Any, responded: Responded) -> None:
        """As a persister."""
        self.requests.append(request)
        if self.responses:
            responded(self.responses.pop(0))
            return
        if type(request) in self.held:
            self._waiting.append((request, responded))
            return
        codes = self.refused.get(type(request), {})
        if not codes:
            self.share_coordinator.submit(request, responded)
            return
        kind = {key: codes.get(key.partition, ErrorCode.NONE) for key, _ in rows_of(request)}
        rows = {key: refused_row(request, key, Refusal(code)) for key, code in kind.items()}
        responded(response_to(request, rows))

    def release(self, passing: Collection[int] = ()) -> None:
        """What was held goes on; what is ``refused`` does not count for these partitions."""
        waiting, self._waiting, self.held = self._waiting, [], set()
        refused = self.refused
        for request, responded in waiting:
            self.refused = {} if {key.partition for key, _ in rows_of(request)} <= set(passing) else refused
            self.send(request, responded)
        self.refused = refused

    def begin(self, request: Message, version: int = 0, connection: ClientConnection | None = None) -> Any:
        """The response, or what waits for it."""
        connection = connection or ClientConnection("/127.0.0.1", local_address=("127.0.0.1", 9092))
        return HANDLERS[request.api_key](self, request, Call(version, "client", connection))  # type: ignore[arg-type]

    def ask(self, request: Message, version: int = 0) -> Any:
        """The response, within 10 s."""
        result = self.begin(request, version)
        if isinstance(result, Pending):
            if result.response is None:
                self.advance(10_000)
            assert result.response is not None, f"no response to {request}"
            return result.response
        return result

    def advance(self, ms: int = 100) -> None:
        self.world.run_until(self.world.now_ms + ms)

    def heartbeat(self, member: str, epoch: int, topics: list[str] | None = None) -> Any:
        """Of a member of the group g."""
        return self.ask(ShareGroupHeartbeatRequest("g", member, epoch, None, topics), 1)

    def initialize(self, start_offset: int = 0, topic: str = "t", group: str = "g") -> None:
        """As the group coordinator does it."""
        count = len(self.topics.by_name[topic].partitions)
        rows = [InitializedPartition(n, 1, start_offset) for n in range(count)]
        self.ask(InitializeShareGroupStateRequest(group, [InitializedTopic(self.topic(topic), rows)]))

    # -- members ------------------------------------------------------------------------------------------------------

    def produce(self, *counts: int, partition: int = 0, topic: str = "t", **batch: Any) -> None:
        """A batch of so many records for each count."""
        of = self.topics.partition(topic, partition)
        for count in counts:
            now_ms = self.world.now_ms
            of.log.append_own(encode_batch([(now_ms, None, b"v", ())] * count, **batch), now_ms)
            of.appended()

    def fetch(self, member: str = "c1", *partitions: int, epoch: int = 0, topic: str = "t", **options: Any) -> Any:
        """A ShareFetch of that member's session; the response, or what waits for it. ``acks`` are of the first partition."""
        fields: dict[str, Any] = {
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
        } | options
        group, acks = fields.pop("group", "g"), fields.pop("acks", ())
        rows = [ShareFetchPartition(partition) for partition in partitions]
        rows += [ShareFetchPartition(0, [AcknowledgementBatch(first, last, [kind])]) for first, last, kind in acks]
        topics = [ShareFetchTopic(self.topic(topic), rows)] if rows else []
        return self.begin(
            ShareFetchRequest(group, member, epoch, topics=topics, **fields), 2, self.connection_of(member)
        )

    def connection_of(self, member: str) -> ClientConnection:
        if member not in self.client_connections:
            self.client_connections[member] = ClientConnection("/127.0.0.1", local_address=("127.0.0.1", 9092))
        return self.client_connections[member]

    def fetched(self, member: str = "c1", *partitions: int, **options: Any) -> dict[int, Any]:
        """The partitions of the response, within the wait."""
        pending = self.fetch(member, *partitions, **options)
        if pending.response is None:
            self.advance(options.get("max_wait_ms", 500))
        return rows_of_response(pending.response)

    def acknowledge(
        self, member: str, first: int, last: int, kind: int = 1, *, epoch: int = 1, partition: int = 0
    ) -> Any:
        """A ShareAcknowledge of one range: what waits for the response."""
        row = AcknowledgePartition(partition, [AcknowledgementBatch(first, last, [kind])])
        topics = [AcknowledgeTopic(self.topic(), [row])]
        return self.begin(ShareAcknowledgeRequest("g", member, epoch, topics=topics), 2, self.connection_of(member))


def rows_of_response(response: Any) -> dict[int, Any]:
    """The partitions of a ShareFetch or ShareAcknowledge response without an error, by number."""
    assert response is not None, "no response yet"
    assert response.error_code == 0, response.error_code
    return {row.partition_index: row for topic in response.responses for row in topic.partitions}


def acquired(row: Any) -> list[tuple[int, int, int]]:
    """First and last offset and delivery count of what a partition gave."""
    return [(part.first_offset, part.last_offset, part.delivery_count) for part in row.acquired_records]


def shared(*counts: int, start_offset: int = 0) -> FramedShare:
    """A broker whose group g has a state of t, whose first partition has a batch of so many records for each count."""
    broker = FramedShare()
    broker.produce(*counts)
    broker.initialize(start_offset)
    broker.requests.clear()
    return broker


def delete_up_to(broker: FramedShare, offset: int) -> None:
    delete_records(broker.topics.partition("t", 0).log, offset)
