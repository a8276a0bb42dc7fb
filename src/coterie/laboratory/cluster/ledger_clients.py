"""A transactional producer of the laboratory's cluster and a reader of committed records with the client's own machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from coterie.consuming.fetching.config import FetchConfig
from coterie.consuming.fetching.effects import LogTruncated
from coterie.consuming.record import TopicPartition as ReadPartition
from coterie.laboratory.client_connections import LEADERS, LOOKUPS
from coterie.laboratory.cluster.coordinating_broker import GROUP
from coterie.laboratory.cluster.handling_broker import HandlingBroker
from coterie.laboratory.cluster.links import connections_to
from coterie.laboratory.cluster.machine_consumer import REQUEST_TIMEOUT_MS
from coterie.laboratory.cluster.process import Network
from coterie.laboratory.cluster.transaction_serving_broker import SOURCE
from coterie.laboratory.cluster.transactional_clients import SentToLedger
from coterie.laboratory.fetching_actor import FetchingActor
from coterie.laboratory.transacting_producer import TransactingProducer, TransactionConfig
from coterie.producing.config import ProducingConfig
from coterie.producing.transactions.requests import CommittingMember
from coterie.producing.transactions.state import TransactionState as S
from coterie.replication.states import TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode

POLL_MS = 400  # at most
RESTART_MS = 3_000  # at most
CONFIG = ProducingConfig(
    batch_size=120, linger_ms=5, delivery_timeout_ms=20_000, request_timeout_ms=3_000, max_in_flight=5
)


class LedgerWriter(TransactingProducer):
    """``sent``: its transactions. Two producers of one transactional id fence each other. After ``stopped`` it begins no
    transaction."""

    def __init__(
        self,
        network: Network,
        name: str,
        brokers: Mapping[int, HandlingBroker],
        partitions: Sequence[TopicPartition],
        transactional_id: str,
        source: int,
    ) -> None:
        transaction = TransactionConfig(transactional_id, 10_000, 30_000, 2)
        super().__init__(network.world, connections_to(network, name, brokers), name, CONFIG, transaction)
        self.partitions, self.source = partitions, source
        self.sent: list[SentToLedger] = []
        self.stopped = False
        self._offset = self._appended = 0

    def start(self) -> None:
        super().start()
        self.init(self._initialized)

    def _start_later(self) -> None:
        """Another process."""
        self.crash()
        if not self.stopped:
            self.world.after(self.world.between(1, RESTART_MS), self.start)

    def _initialized(self, code: ErrorCode) -> None:
        if code:
            self._start_later()
        else:
            self._transact()

    def _transact(self) -> None:
        if self.stopped:
            return
        sent, world = SentToLedger(), self.world
        self.sent.append(sent)
        self.begin()
        for partition in world.random.sample(self.partitions, world.between(1, len(self.partitions))):
            for _ in range(world.between(1, 3)):
                value = f"{self.name}.{self._appended}"
                self._appended += 1
                sent.values.setdefault(partition, []).append(value)
                self.append(partition, value.encode())
        self._after(world.between(0, 500), lambda: self._commit_offset(sent))

    def _commit_offset(self, sent: SentToLedger) -> None:
        if self.state is not S.IN_TRANSACTION or self.world.chance(0.5):
            self._finish(sent)
            return
        self._offset += 1
        sent.offset = self._offset
        self.send_offsets({(SOURCE, self.source): self._offset}, CommittingMember(GROUP), lambda _: self._finish(sent))

    def _finish(self, sent: SentToLedger) -> None:
        if self.world.chance(0.05) or self.state not in (S.IN_TRANSACTION, S.ABORTABLE_ERROR):
            self._start_later()
            return
        is_wanted = self.state is S.IN_TRANSACTION and self.world.chance(0.65)
        sent.wanted = is_wanted
        self.end(is_wanted, lambda code: self._end_answered(sent, is_wanted, code))

    def _end_answered(self, sent: SentToLedger, is_wanted: bool, code: ErrorCode) -> None:
        if not code:
            sent.wanted = sent.answered = is_wanted
            self._after(self.world.between(1, 800), self._transact)
        elif is_wanted and self.state is S.ABORTABLE_ERROR:
            self.end(False, lambda code: self._end_answered(sent, False, code))
        else:
            self._start_later()


class LedgerMachineReader(FetchingActor):
    """``read``: what one partition delivered of committed transactions, in order."""

    def __init__(
        self, network: Network, name: str, brokers: Mapping[int, HandlingBroker], partition: TopicPartition
    ) -> None:
        config = FetchConfig(max_bytes=1_500, max_partition_bytes=600, validates=True, committed_only=True)
        super().__init__(network.world, name, config)
        self._connections = connections_to(network, name, brokers)
        self.partition = partition
        self.read: list[str] = []

    def start(self) -> None:
        self._begin()
        self.fetching.assign([ReadPartition(*self.partition)])
        self._poll()

    def _poll(self) -> None:
        self.look_up_starts()
        for records in self.fetching.take(100).values():
            self.read += [(record.value or b"").decode() for record in records]
        assert self.fetching.damage_due() is None, f"{self.name} cannot read {self.fetching.damage_due()}"
        self.pump()
        self.world.after(self.world.between(1, POLL_MS), self._poll)

    def seek(self, tp: ReadPartition, offset: int) -> None:
        """See `StartingActor`."""
        assert self.fetching.positions[tp].offset <= offset, f"{self.name} goes back to {offset}"
        self.fetching.seek(tp, offset)

    def _truncated(self, effect: LogTruncated) -> None:
        raise AssertionError(f"{self.name} learns that its log was cut: {effect}")

    def _send(
        self, node_id: int | None, request: Message, version: int, received: Callable[[Message | None], None]
    ) -> None:
        purpose = LOOKUPS if node_id is None else LEADERS
        self._connections.request(purpose, node_id, request, version, received, REQUEST_TIMEOUT_MS)
