"""UpdateFeatures (KIP-584): finalized levels are raised and lowered, all of a request or none."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from coterie.broker.handlers.administration.cluster_responses import refusal_of, responded_by
from coterie.broker.handlers.services import ClusterServices, Handler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.settings.features import Features, FeatureUpdate, UpgradeType
from coterie.controller import nodes
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.settings.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from coterie.zookeeper.operations import ZooKeeperError

if TYPE_CHECKING:
    from coterie.broker.cluster.entity_settings import EntitySettings

logger = logging.getLogger(__name__)
_NODE = (nodes.FEATURES_KIND, nodes.DEFAULT_ENTITY)


def handle_update_features(
    broker: ClusterServices, request: UpdateFeaturesRequest, call: Call
) -> UpdateFeaturesResponse | Pending:
    """INVALID_UPDATE_VERSION, KAFKA_STORAGE_ERROR; then no level has changed."""
    updates = [FeatureUpdate(u.feature, u.max_version_level, _upgrade_type(u, call)) for u in request.feature_updates]
    if broker.entity_settings is not None:
        return responded_by(_update_in_cluster(broker.features, broker.entity_settings, request, updates))
    try:
        broker.features.update(updates, validate_only=request.validate_only)
    except Refusal as refusal:
        return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.message)
    except OSError as error:
        logger.error("the feature levels cannot be written: %s", error)
        return UpdateFeaturesResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return _updated(request)


async def _update_in_cluster(
    features: Features, entities: EntitySettings, request: UpdateFeaturesRequest, updates: list[FeatureUpdate]
) -> UpdateFeaturesResponse:
    """The levels are ZooKeeper's, which every broker is notified of."""
    try:
        while True:
            _, version = await entities.read(*_NODE)
            levels = features.updated(updates)
            if request.validate_only or levels == features.levels:
                break
            if await entities.write(*_NODE, features.as_settings(levels), version):
                await entities.read(*_NODE)
                break
    except (Refusal, ZooKeeperError) as error:
        refusal = refusal_of(error)
        return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.message)
    return _updated(request)


def _updated(request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    # Kafka's text of NONE in a result is its name; v2 has no results.
    results = [UpdatableFeatureResult(u.feature, ErrorCode.NONE, "NONE") for u in request.feature_updates]
    return UpdateFeaturesResponse(results=results)


def _upgrade_type(update: FeatureUpdateKey, call: Call) -> int:
    if call.api_version >= 1:
        return update.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE


HANDLERS: dict[int, Handler] = {57: handle_update_features}
