"""UpdateFeatures (KIP-584): finalized levels are raised and lowered, all of a request or none."""

from __future__ import annotations

import logging

from coterie.broker.handlers.services import ClusterServices, Handler
from coterie.broker.requests.calls import Call
from coterie.broker.settings.features import FeatureUpdate, UpgradeType
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.settings.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

logger = logging.getLogger(__name__)


def handle_update_features(
    broker: ClusterServices, request: UpdateFeaturesRequest, call: Call
) -> UpdateFeaturesResponse:
    """INVALID_UPDATE_VERSION, KAFKA_STORAGE_ERROR; then no level has changed."""
    updates = [FeatureUpdate(u.feature, u.max_version_level, _upgrade_type(u, call)) for u in request.feature_updates]
    try:
        broker.features.update(updates, validate_only=request.validate_only)
    except Refusal as refusal:
        return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.message)
    except OSError as error:
        logger.error("the feature levels cannot be written: %s", error)
        return UpdateFeaturesResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    # Kafka's text of NONE in a result is its name; v2 has no results.
    results = [UpdatableFeatureResult(u.feature, ErrorCode.NONE, "NONE") for u in request.feature_updates]
    return UpdateFeaturesResponse(results=results)


def _upgrade_type(update: FeatureUpdateKey, call: Call) -> int:
    if call.api_version >= 1:
        return update.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE


HANDLERS: dict[int, Handler] = {57: handle_update_features}
