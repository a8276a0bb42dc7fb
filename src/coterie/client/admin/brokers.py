"""An admin's calls about brokers: their features (KIP-584) and log directories (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie import __version__
from coterie.client import arguments
from coterie.client.admin.cluster_types import (
    FeatureMetadata,
    FeatureUpgradeType,
    LogDirDescription,
    ReplicaInfo,
    VersionRange,
)
from coterie.client.admin.each_broker import of_each_broker
from coterie.client.admin.repeated_calls import repeated
from coterie.client.admin_types import Node
from coterie.client.connection.cluster import Cluster
from coterie.client.connection.handshake import SOFTWARE_NAME
from coterie.client.errors import KafkaError, check
from coterie.client.types import TopicPartition
from coterie.wire.errors import error_of
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest
from coterie.wire.messages.logs.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResult
from coterie.wire.messages.settings.update_features import FeatureUpdateKey, UpdateFeaturesRequest


class BrokerCalls:
    """Of `Admin`."""

    _cluster: Cluster

    @repeated
    async def describe_features(self) -> FeatureMetadata:
        """The features of a broker, whichever responds.

        >>> features = await admin.describe_features()
        >>> features.finalized["group.version"]
        VersionRange(min_version=1, max_version=1)
        """
        response = await self._cluster.request(ApiVersionsRequest(SOFTWARE_NAME, __version__))
        check(response.error_code)
        epoch = response.finalized_features_epoch
        return FeatureMetadata(
            {f.name: VersionRange(f.min_version_level, f.max_version_level) for f in response.finalized_features},
            None if epoch < 0 else epoch,
            {f.name: VersionRange(f.min_version, f.max_version) for f in response.supported_features},
        )

    @repeated
    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: FeatureUpgradeType = FeatureUpgradeType.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Sets the levels of features, 0 to switch one off; all of them or none. ``validate_only``: changes nothing. Raises
        KafkaError INVALID_UPDATE_VERSION, CLUSTER_AUTHORIZATION_FAILED.

        >>> await admin.update_features({"group.version": 1}, validate_only=True)
        """
        updates = [
            FeatureUpdateKey(
                arguments.text(name, "the name of a feature"),
                arguments.whole_number(level, f"the level of {name}", 0, 2**15 - 1),
                upgrade_type is not FeatureUpgradeType.UPGRADE,
                FeatureUpgradeType(upgrade_type),
            )
            for name, level in levels.items()
        ]
        request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
        response = await self._cluster.request_controller(request, lambda responded: [responded])
        check(response.error_code, response.error_message)
        for result in response.results:
            check(result.error_code, result.error_message, subject=f"feature {result.feature}")

    @repeated
    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, errors: dict[Node, KafkaError] | None = None
    ) -> dict[int, tuple[LogDirDescription, ...]]:
        """The log directories of every broker, or of ``brokers``, by broker id, with the size of each replica. ``errors`` as in
        `list_groups`. Raises KafkaError CLUSTER_AUTHORIZATION_FAILED of a broker.

        >>> (directory,) = (await admin.describe_log_dirs())[1]
        >>> directory.replicas[TopicPartition("orders", 1)]
        ReplicaInfo(size=0, offset_lag=0, is_future=False)
        """

        async def of(node_id: int) -> tuple[LogDirDescription, ...]:
            response = await self._cluster.request(DescribeLogDirsRequest(None), node_id)
            check(response.error_code, subject=f"broker {node_id}")
            return tuple(map(_log_dir, response.results))

        wanted = None if brokers is None else arguments.broker_ids(brokers, "brokers")
        return await of_each_broker(self._cluster, of, errors, wanted)


def _log_dir(result: DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, p.partition_index): ReplicaInfo(p.partition_size, p.offset_lag, p.is_future_key)
        for topic in result.topics
        for p in topic.partitions
    }
    total, usable = (None if size < 0 else size for size in (result.total_bytes, result.usable_bytes))
    return LogDirDescription(result.log_dir, error_of(result.error_code), replicas, total, usable)
