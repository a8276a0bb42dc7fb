"""A consumer of the laboratory's cluster with the client's own machines, without a group: it reads whole topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coterie.consuming.fetching.config import FetchConfig
from coterie.consuming.fetching.effects import LogTruncated
from coterie.consuming.record import TopicPartition
from coterie.laboratory.client_connections import LEADERS, LOOKUPS
from coterie.laboratory.cluster.administrator import ORDERS
from coterie.laboratory.cluster.handling_broker import HandlingBroker
from coterie.laboratory.cluster.links import connections_to
from coterie.laboratory.cluster.process import Network
from coterie.laboratory.fetching_actor import FetchingActor
from coterie.wire.declaration import Message

POLL_MS = 400  # at most, between polls
POLLED_AT_MOST = 20
REQUEST_TIMEOUT_MS = 8_000


class DeliveredRecords:
    """What was delivered of one partition: ``records``, with their offsets, and ``read`` by offset, without what was cut since;
    ``changed``: what should not have happened; ``cuts``: what may happen after an unclean election alone; ``resets``: positions
    that went back because they were out of range, and whether each followed a record."""

    def __init__(self) -> None:
        self.records: set[tuple[int, str]] = set()
        self.read: dict[int, str] = {}
        self.changed: list[str] = []
        self.cuts: list[str] = []
        self.resets: list[tuple[int, bool]] = []
        self.position = -1  # after the last record
        self.follows_record = False  # else a new leader cannot be asked whether it has the position (KIP-320)

    def take(self, offset: int, value: str) -> None:
        """A record is delivered."""
        if offset != self.position:
            self.changed.append(f"offset {offset} was delivered at position {self.position}")
        before = self.read.setdefault(offset, value)
        if before != value:
            self.changed.append(f"offset {offset} was {before} and is {value}")
        self.records.add((offset, value))
        self.position, self.follows_record = offset + 1, True

    def reset(self, offset: int) -> None:
        """The log did not have the position; it begins at the offset."""
        if 0 <= offset < self.position:
            self.resets.append((self.position, self.follows_record))
            if not self.follows_record:
                self._drop_from(offset)

    def sought(self, offset: int) -> None:
        """What is delivered next begins there."""
        self.position, self.follows_record = offset, False

    def forget(self) -> None:
        """What comes from now on need not be the same."""
        self.records.clear()
        self.read.clear()

    def cut(self, offset: int, what: str) -> None:
        """The log may have other records from that offset on."""
        self.cuts.append(what)
        self._drop_from(offset)
        self.position = offset

    def _drop_from(self, offset: int) -> None:
        self.read = {at: value for at, value in self.read.items() if at < offset}


class MachineConsumer(FetchingActor):
    """Polls from the logs' starts on; until `finish` it reads the topic that stays again now and then, perhaps from another
    leader."""

    def __init__(self, network: Network, name: str, brokers: Mapping[int, HandlingBroker], config: FetchConfig) -> None:
        super().__init__(network.world, name, config)
        self._connections = connections_to(network, name, brokers)
        self.delivered: dict[TopicPartition, DeliveredRecords] = {}
        self.alive = False
        self._rereads, self._polled_at_most = True, POLLED_AT_MOST

    def add(self, partition: tuple[str, int]) -> None:
        """It is read from now on."""
        tp = TopicPartition(*partition)
        self.delivered[tp] = DeliveredRecords()
        self._assign()

    def drop(self, topic: str) -> None:
        """It is deleted."""
        self.delivered = {tp: delivered for tp, delivered in self.delivered.items() if tp.topic != topic}
        self._assign()

    def _assign(self) -> None:
        if self.alive:
            self.fetching.assign(list(self.delivered))

    def start(self) -> None:
        """Starts the process, if it is not alive: it reads its partitions from their starts on."""
        if self.alive:
            return
        self.alive = True
        self._connections.forget()
        self._begin()
        self._resets = set[TopicPartition]()  # positions that are being looked up because they were out of range
        self._assign()
        self._poll_later()

    def crash(self) -> None:
        """What is in memory is gone; the next life begins at the logs' starts."""
        self.alive = False
        self._life += 1
        self._timer.forget()
        for tp, delivered in self.delivered.items():
            if tp.topic != ORDERS:
                delivered.forget()  # only who reads on from a position can tell that the log was cut before it

    def finish(self) -> None:
        """Reads to the end."""
        self._rereads, self._polled_at_most = False, 20 * POLLED_AT_MOST

    def _poll_later(self) -> None:
        life = self._life
        self.world.after(self.world.between(1, POLL_MS), lambda: self._poll() if self._life == life else None)

    def _poll(self) -> None:
        self._resets.update(self.fetching.resets_due())
        self.look_up_starts()
        polled = self.fetching.take(self.world.between(1, self._polled_at_most))
        for tp, records in polled.items():
            for record in records:
                self.delivered[tp].take(record.offset, (record.value or b"").decode())
        assert self.fetching.damage_due() is None, f"{self.name} cannot read {self.fetching.damage_due()}"
        if self._rereads and self.world.chance(0.02):
            self._starts.look_up([self.world.random.choice([tp for tp in self.delivered if tp.topic == ORDERS])])
        self.pump()
        self._poll_later()

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """See `StartingActor`."""
        self.fetching.seek(tp, offset)
        if tp in self._resets:
            self._resets.discard(tp)
            self.delivered[tp].reset(offset)
        self.delivered[tp].sought(offset)

    def _truncated(self, effect: LogTruncated) -> None:
        where = max(effect.divergent_offset, 0)
        self.delivered[effect.partition].cut(where, f"the log was cut at {where} before position {effect.offset}")

    def _send(
        self, node_id: int | None, request: Message, version: int, received: Callable[[Message | None], None]
    ) -> None:
        purpose = LOOKUPS if node_id is None else LEADERS
        self._connections.request(purpose, node_id, request, version, received, REQUEST_TIMEOUT_MS)
