"""Which story a seed of `lab fuzz --of clusters` tells."""

from __future__ import annotations

from collections.abc import Callable

from coterie.laboratory.cluster.client_story import run_client_cluster_seed
from coterie.laboratory.cluster.consumer_group_story import run_consumer_group_cluster_seed
from coterie.laboratory.cluster.group_story import run_group_cluster_seed
from coterie.laboratory.cluster.report import ClusterReport
from coterie.laboratory.cluster.story import run_cluster_seed
from coterie.laboratory.cluster.transaction_client_story import run_transaction_client_seed
from coterie.laboratory.cluster.transaction_story import run_transaction_cluster_seed
from coterie.laboratory.fuzz import without_log_lines

WITH_TRANSACTIONS_FROM = 100  # every fourth seed
WITH_GROUPS_FROM = 120_000  # every second seed
WITH_CONSUMER_GROUPS_FROM = 150_000  # one of the two groups
WITH_WHOLE_CLIENTS_FROM = 190_000


def run_seed_of_clusters(seed: int, minutes: float = 5.0) -> ClusterReport:
    """The same seed gives the same story. Raises FuzzFailure."""
    with without_log_lines():
        return _story_of(seed)(seed, minutes)


def _story_of(seed: int) -> Callable[[int, float], ClusterReport]:
    if seed >= WITH_TRANSACTIONS_FROM and seed % 4 == 2:
        return run_transaction_client_seed if seed >= WITH_WHOLE_CLIENTS_FROM else run_transaction_cluster_seed
    if seed >= WITH_CONSUMER_GROUPS_FROM and seed % 4 < 2:
        return run_consumer_group_cluster_seed
    if seed >= WITH_WHOLE_CLIENTS_FROM and seed % 4 == 3:
        return run_client_cluster_seed
    return run_group_cluster_seed if seed >= WITH_GROUPS_FROM and seed % 4 < 2 else run_cluster_seed
