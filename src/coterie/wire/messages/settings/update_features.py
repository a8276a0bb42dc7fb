"""UpdateFeatures (key 57, KIP-584): finalized feature levels. v1 dry runs and unsafe downgrades (KIP-778), v2 one result for
the whole request (KIP-1022).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, boolean, field, int8, int16, int32, message, string, struct


@struct
class FeatureUpdateKey(Struct):
    feature: str = field(string)
    max_version_level: int = field(int16)
    allow_downgrade: bool = field(boolean, "0")
    upgrade_type: int = field(int8, "1+", default=1)


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Message):
    timeout_ms: int = field(int32, default=60000)
    feature_updates: list[FeatureUpdateKey] = field(array(FeatureUpdateKey))
    validate_only: bool = field(boolean, "1+")


@struct
class UpdatableFeatureResult(Struct):
    feature: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    results: list[UpdatableFeatureResult] = field(array(UpdatableFeatureResult), "0-1")
