"""UpdateFeatures (KIP-584): levels may be set to what they are, and to nothing else."""

from __future__ import annotations

from coterie.broker.calls import Call
from coterie.broker.features import FeatureUpdate, UpgradeType, check_updates
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


def handle_update_features(broker: object, request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    try:
        check_updates(
            FeatureUpdate(u.feature, u.max_version_level, _upgrade_type(u, call)) for u in request.feature_updates
        )
    except Refusal as refusal:
        return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.message)
    # Kafka's text of NONE in a result is its name; v2 has no results.
    results = [UpdatableFeatureResult(u.feature, ErrorCode.NONE, "NONE") for u in request.feature_updates]
    return UpdateFeaturesResponse(results=results)


def _upgrade_type(update: FeatureUpdateKey, call: Call) -> int:
    if call.api_version >= 1:
        return update.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
