"""A process of the laboratory that has a producer's machine (`coterie.producing`): its inputs, its effects and its deadlines in
virtual time. What becomes of a request is the subclass's: `sending_actor` over connections that break, `requesting_producer`
against brokers' own handlers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from coterie.laboratory.world import World
from coterie.producing.batch import ProduceFailure, ProducerBatch, TopicPartition
from coterie.producing.config import ProducingConfig
from coterie.producing.effects import (
    AddPartitions,
    BatchEnded,
    Effect,
    ForgetLeaders,
    GetProducerId,
    LookUpLeaders,
    SendProduce,
)
from coterie.producing.leaders import EpochOf, LeaderOf
from coterie.producing.machine import ProducerMachine
from coterie.producing.opened_transaction import OpenedTransaction
from coterie.wire.errors import ErrorCode

LOST = ProduceFailure.of_code(ErrorCode.NETWORK_EXCEPTION)


class ProducingActor(ABC):
    """``_begin`` starts a life of the process, with a machine that knows nothing; what a former life has
    awaited never comes."""

    machine: ProducerMachine

    def __init__(self, world: World, config: ProducingConfig) -> None:
        self.world, self.config = world, config
        self._life = 0
        self._armed_ms = -1.0

    @abstractmethod
    def _send(self, effect: SendProduce) -> None:
        """Sends it; `ProducerMachine.produced` or `request_failed` follows."""

    @abstractmethod
    def _forget_leaders(self, topic: str) -> None:
        """The machine's ``leader_of`` returns None from now on."""

    @abstractmethod
    def _look_up_leaders(self, topics: frozenset[str]) -> None:
        """Begins a look-up; `ProducerMachine.leaders_looked_up` follows."""

    @abstractmethod
    def _get_producer_id(self) -> None:
        """Requests one; `ProducerMachine.identified` or `not_identified` follows."""

    @abstractmethod
    def _ended(self, batch: ProducerBatch) -> None:
        """Each record of the batch has its result."""

    def _add_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """The machine's effect, of a producer with transactions; `ProducerMachine.partitions_added` or
        `partitions_refused` follows."""
        raise AssertionError("this producer has no transaction")

    # -- the machine --------------------------------------------------------------------------------------------------

    def _begin(self, leader_of: LeaderOf, epoch_of: EpochOf, transaction: OpenedTransaction | None = None) -> None:
        self._life += 1
        self._armed_ms = -1.0
        self.machine = ProducerMachine(self.config, leader_of, transaction=transaction, epoch_of=epoch_of)

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """An input of this life, later."""
        life = self._life
        self.world.after(delay_ms, lambda: self._act(action) if self._life == life else None)

    def _act(self, action: Callable[[], None]) -> None:
        """Runs an input and carries out the effects."""
        action()
        while effects := self.machine.next(self.world.now_ms):
            for effect in effects:
                self._carry_out(effect)
        self._arm()

    def _arm(self) -> None:
        now_ms, due_ms = self.world.now_ms, self.machine.next_deadline_ms()
        if due_ms is None or now_ms < self._armed_ms <= due_ms:
            return
        self._armed_ms = max(due_ms, now_ms)
        self._after(max(int(-(-due_ms // 1)) - now_ms, 0), lambda: None)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendProduce():
                self._send(effect)
            case ForgetLeaders(topic):
                self._forget_leaders(topic)
            case LookUpLeaders(topics):
                self._look_up_leaders(topics)
            case GetProducerId():
                self._get_producer_id()
            case BatchEnded(batch):
                self._ended(batch)
            case AddPartitions(partitions):
                self._add_partitions(partitions)

    def _jitter(self) -> float:
        return self.world.random.uniform(-1, 1)
