"""A story of the cluster whose producers and consumers are those of the client: its machines, and the wire's messages to the
broker's own handlers."""

from __future__ import annotations

from coterie.laboratory.cluster.machine_clients import MachineClients
from coterie.laboratory.cluster.report import ClusterReport
from coterie.laboratory.cluster.serving_broker import ServingBroker
from coterie.laboratory.cluster.story import SESSION_TIMEOUT_MS, ClusterStory
from coterie.laboratory.fuzz import naming_seed
from coterie.replication.states import ReplicationConfig


class ClientStory(ClusterStory):
    """All logs are the broker's own."""

    brokers: dict[int, ServingBroker]  # type: ignore[assignment]
    clients: MachineClients

    def _new_broker(self, number: int, config: ReplicationConfig) -> ServingBroker:
        return ServingBroker(self.network, number, self.server, config, SESSION_TIMEOUT_MS)

    def _new_clients(self) -> MachineClients:
        return MachineClients(self.network, self.brokers)

    def _begin_faults(self, end_ms: int) -> None:
        super()._begin_faults(end_ms)
        self.clients.strike_until(end_ms)

    def _summed_up(self) -> ClusterReport:
        report = super()._summed_up()
        report.validations = self.clients.validations
        return report


def run_client_cluster_seed(seed: int, minutes: float = 5.0) -> ClusterReport:
    """The same seed gives the same story. Raises FuzzFailure."""
    with naming_seed(seed):
        return ClientStory(seed).run(int(minutes * 60_000))
