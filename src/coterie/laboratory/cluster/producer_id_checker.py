"""What must hold of producer ids in the laboratory's cluster, over all its brokers and their lives."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.wire.errors import Refusal


class ProducerIdChecker:
    """Each violation is added to ``failures``."""

    def __init__(self, failures: list[str]) -> None:
        self._failures = failures
        self._given: dict[int, int] = {}  # by id, the broker

    @property
    def count(self) -> int:
        """How many ids were given."""
        return len(self._given)

    def given(self, broker: int, producer_id: int) -> None:
        """No id is given twice."""
        other = self._given.setdefault(producer_id, -1)
        if other >= 0:
            self._failures.append(f"brokers {other} and {broker} have given the producer id {producer_id}")
        self._given[producer_id] = broker

    def take(self, brokers: Iterable[ClusterBroker], count: Callable[[], int]) -> list[int]:
        """As many producers begin at each of them; returns the brokers that refuse one."""
        refusing: list[int] = []
        for broker in brokers:
            try:
                for _ in range(count()):
                    broker.take_producer_id()
            except Refusal:
                refusing.append(broker.number)
            broker.acted()
        return refusing

    def check(self, brokers: Iterable[ClusterBroker]) -> None:
        """Each of the brokers has an id at rest."""
        self._failures += [f"broker {n} has no producer id at rest" for n in self.take(brokers, lambda: 1)]
