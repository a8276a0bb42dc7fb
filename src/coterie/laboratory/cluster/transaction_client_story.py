"""A story of the cluster with transactions whose clients have the client's machines, at brokers with the real coordinator."""

from __future__ import annotations

from coterie.laboratory.cluster.coordinating_broker import LEDGER
from coterie.laboratory.cluster.ledger_clients import LedgerMachineReader, LedgerWriter
from coterie.laboratory.cluster.machine_clients import MachineClients
from coterie.laboratory.cluster.report import ClusterReport
from coterie.laboratory.cluster.story import SESSION_TIMEOUT_MS
from coterie.laboratory.cluster.transaction_serving_broker import SOURCE, TransactionServingBroker
from coterie.laboratory.cluster.transaction_story import IDS, LEDGER_PARTITIONS, TransactionClusterStory
from coterie.laboratory.fuzz import naming_seed
from coterie.replication.states import ReplicationConfig


class TransactionClientStory(TransactionClusterStory):
    """Transactions of version 2; see `ClientStory` for the other clients."""

    brokers: dict[int, TransactionServingBroker]  # type: ignore[assignment]
    own_topics = {**TransactionClusterStory.own_topics, SOURCE: len(IDS)}

    def __init__(self, seed: int) -> None:
        super().__init__(seed, 2)

    def _new_broker(self, number: int, config: ReplicationConfig) -> TransactionServingBroker:  # type: ignore[override]
        return TransactionServingBroker(self.network, number, self.server, config, SESSION_TIMEOUT_MS)

    def _new_clients(self) -> MachineClients:
        return MachineClients(self.network, self.brokers)

    def _new_producer(self, number: int, transactional_id: str) -> LedgerWriter:
        partitions = [(LEDGER, index) for index in range(LEDGER_PARTITIONS)]
        return LedgerWriter(self.network, f"t{number}", self.brokers, partitions, transactional_id, number)

    def _new_reader(self, number: int) -> LedgerMachineReader:
        return LedgerMachineReader(self.network, f"r{number}", self.brokers, (LEDGER, number))


def run_transaction_client_seed(seed: int, minutes: float = 5.0) -> ClusterReport:
    """The same seed gives the same story. Raises FuzzFailure."""
    with naming_seed(seed):
        return TransactionClientStory(seed).run(int(minutes * 60_000))
