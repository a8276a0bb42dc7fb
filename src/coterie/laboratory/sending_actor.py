"""A producer in the laboratory: the machine of `coterie.producing`, over connections that break with requests under way.

A connection keeps the order of its requests. When it breaks, the first of those under way still arrive, perhaps after the
producer has noticed and sends again; their responses are lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coterie.laboratory.produce_checker import RecordLedger
from coterie.laboratory.produce_cluster import TOPIC, ProduceCluster
from coterie.laboratory.producing_actor import LOST, ProducingActor
from coterie.laboratory.world import World
from coterie.producing.batch import ProduceFailure, ProducerBatch, TopicPartition
from coterie.producing.config import ProducingConfig
from coterie.producing.effects import SendProduce
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import ProduceResponse

NO_ANSWER = ProduceFailure.of_code(ErrorCode.REQUEST_TIMED_OUT)
OVERHEAD_BYTES = 20


@dataclass(slots=True)
class _Connection:
    """``arrives_ms``: when the newest request arrives, and ``response_ms`` the newest response."""

    node_id: int
    is_open: bool = True
    arrives_ms: int = 0
    response_ms: int = 0
    under_way: list[int] = field(default_factory=list)
    arriving: set[int] = field(default_factory=set)  # of a broken connection: the requests that still arrive


class SendingActor(ProducingActor):
    """Appends records at random times, and drives its machine. ``stalled_until_ms``: until then its process is stalled."""

    def __init__(self, world: World, cluster: ProduceCluster, name: str, config: ProducingConfig) -> None:
        super().__init__(world, config)
        self.cluster = cluster
        self.ledger = RecordLedger(name, config.is_idempotent, config.delivery_timeout_ms)
        self.stalled_until_ms = 0
        self.resumed_ms = float("-inf")
        self.is_appending = False
        self.splits = 0
        self._leaders: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._connections: dict[int, _Connection] = {}
        cluster.on_crash.append(self._broker_crashed)
        self._restart()

    def _restart(self) -> None:
        self._leaders.clear()
        self._connections.clear()
        self._begin(
            lambda topic, index: self._leaders.get((topic, index)),
            lambda topic, index: self._epochs.get((topic, index), -1),
        )

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.is_appending = True
        self._append_later()

    def stop(self) -> None:
        """Appends no more records; the present ones end."""
        self.is_appending = False
        self.machine.flush()
        self._act(lambda: None)

    def crash(self) -> None:
        """The process dies with what it has in memory, and begins anew as another producer."""
        for connection in self._connections.values():
            self._break(connection, notices=False)
        self._restart()
        self.ledger.forget_open()

    def stall(self, length_ms: int) -> None:
        self.stalled_until_ms = self.world.now_ms + length_ms
        self.world.after(length_ms, lambda: self._act(lambda: None))

    def _append_later(self) -> None:
        def append() -> None:
            if not self.is_appending:
                return
            if self.world.now_ms >= self.stalled_until_ms:
                self._act(self._append)
            self._append_later()

        self.world.after(self.world.between(1, 400), append)

    def append_everywhere(self) -> None:
        """One small record to each partition."""

        def append() -> None:
            for partition in self.cluster.leaders:
                self._append_to(partition, 10)

        self._act(append)

    def _append(self) -> None:
        world = self.world
        for _ in range(world.between(1, 12)):
            partition = (TOPIC, world.between(0, len(self.cluster.leaders) - 1))
            self._append_to(partition, world.random.choice([0, 0, 50, 400]) if world.chance(0.3) else 10)

    def _append_to(self, partition: TopicPartition, padding: int) -> None:
        now_ms = self.world.now_ms
        value = self.ledger.next_value(now_ms)
        size = len(value) + padding + OVERHEAD_BYTES
        if self.machine.accumulator.has_room(size):
            self.machine.append(partition, (now_ms, None, value + bytes(padding), ()), size, now_ms)
        else:
            self.ledger.ended(partition, value, LOST, now_ms, now_ms)

    # -- the machine --------------------------------------------------------------------------------------------------

    def _act(self, action: Callable[[], None]) -> None:
        """Now, or at the end of a stall."""
        wait_ms = self.stalled_until_ms - self.world.now_ms
        if wait_ms > 0:
            self._after(wait_ms, action)
            return
        if 0 <= -wait_ms <= 1:
            self.resumed_ms = float(self.world.now_ms)
        super()._act(action)

    def _ended(self, batch: ProducerBatch) -> None:
        self.splits += len(batch.results) > 1
        for index, item in enumerate(batch.items):
            value = _key(item[2] or b"")
            self.ledger.ended(batch.partition, value, batch.result_of(index), self.world.now_ms, self.resumed_ms)

    def _forget_leaders(self, topic: str) -> None:
        self._leaders = {p: leader for p, leader in self._leaders.items() if p[0] != topic}

    def _look_up_leaders(self, topics: frozenset[str]) -> None:
        self._request(self._leaders_received)

    def _get_producer_id(self) -> None:
        self._request(self._producer_id_received)

    def _request(self, received: Callable[[bool], None]) -> None:
        """At any broker; the response may be lost."""
        is_lost = self.world.chance(3 * self.world.faults.break_probability) or not any(self.cluster.up.values())
        later_ms = self.world.faults.notice_ms if is_lost else 2 * self.world.delay_ms()
        self._after(later_ms, lambda: received(not is_lost))

    def _leaders_received(self, is_received: bool) -> None:
        if is_received:
            self._leaders |= self.cluster.metadata()
            self._epochs |= self.cluster.epochs
        self.machine.leaders_looked_up({} if is_received else {TOPIC: LOST}, self.world.now_ms, self._jitter())

    def _producer_id_received(self, is_received: bool) -> None:
        if is_received:
            self.machine.identified(self.cluster.new_producer(), self.world.now_ms)
        else:
            self.machine.not_identified(LOST, self.world.now_ms, self._jitter())

    # -- the network --------------------------------------------------------------------------------------------------

    def _send(self, effect: SendProduce) -> None:
        world, life = self.world, self._life
        connection = self._connections.get(effect.node_id)
        if connection is None or not connection.is_open:
            connection = self._connections[effect.node_id] = _Connection(effect.node_id)
        connection.under_way.append(effect.token)
        assert len(connection.under_way) <= self.config.max_in_flight, "too many requests are in flight"
        connection.arrives_ms = max(connection.arrives_ms, world.now_ms + world.delay_ms())
        world.at(connection.arrives_ms, lambda: self._arrive(connection, effect, life))
        world.after(self.config.request_timeout_ms, lambda: self._time_out(connection, effect.token))
        if world.chance(world.faults.break_probability):
            self._break(connection)

    def _arrive(self, connection: _Connection, effect: SendProduce, life: int) -> None:
        world = self.world
        if not self.cluster.up[effect.node_id]:
            self._break(connection)
            return
        if not connection.is_open and effect.token not in connection.arriving:
            return
        response = self.cluster.produce(effect.node_id, effect.request)
        if response is None:
            return
        connection.response_ms = max(connection.response_ms, world.now_ms + world.delay_ms())
        world.at(connection.response_ms, lambda: self._received(connection, effect.token, response, life))

    def _received(self, connection: _Connection, token: int, response: ProduceResponse, life: int) -> None:
        if connection.is_open and self._life == life:
            connection.under_way.remove(token)
            self._act(lambda: self.machine.produced(token, response, self.world.now_ms, self._jitter()))

    def _broker_crashed(self, node_id: int) -> None:
        connection = self._connections.get(node_id)
        if connection is not None:
            self._break(connection)

    def _time_out(self, connection: _Connection, token: int) -> None:
        if connection.is_open and token in connection.under_way:
            self._break(connection, failure=NO_ANSWER)

    def _break(self, connection: _Connection, *, notices: bool = True, failure: ProduceFailure = LOST) -> None:
        """What is under way gets no response; of the requests the first ones still arrive."""
        if not connection.is_open:
            return
        connection.is_open = False
        tokens = list(connection.under_way)
        arriving = self.world.between(0, len(tokens))
        connection.arriving = set(tokens[:arriving])
        if notices:
            self._after(self.world.between(0, self.world.faults.notice_ms), lambda: self._fail(tokens, failure))

    def _fail(self, tokens: list[int], failure: ProduceFailure) -> None:
        for token in tokens:
            self.machine.request_failed(token, failure, self.world.now_ms, self._jitter())


def _key(value: bytes) -> bytes:
    """Producer and number, without what makes it long."""
    end = value.index(b":", value.index(b":") + 1)
    return value[: end + 1]
