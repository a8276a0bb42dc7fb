"""ApiVersions (key 18): what a broker speaks. v3 is flexible and names the client (KIP-511); its response header is
always version 0, so that a client can read it before it knows anything. v4: finalized features may start at 0. v5: the
client names the cluster and the broker that it means to reach (KIP-1242).
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    field,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
)


@message(api_key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest(Message):
    client_software_name: str = field(string, "3+")
    client_software_version: str = field(string, "3+")
    cluster_id: str | None = field(string, "5+", nullable="5+", default=None)
    node_id: int = field(int32, "5+", default=-1)


@struct
class ApiVersion(Struct):
    api_key: int = field(int16)
    min_version: int = field(int16)
    max_version: int = field(int16)


@struct
class SupportedFeatureKey(Struct):
    name: str = field(string)
    min_version: int = field(int16)
    max_version: int = field(int16)


@struct
class FinalizedFeatureKey(Struct):
    name: str = field(string)
    max_version_level: int = field(int16)
    min_version_level: int = field(int16)


@message(api_key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse(Message):
    error_code: int = field(int16)
    api_keys: list[ApiVersion] = field(array(ApiVersion))
    throttle_time_ms: int = field(int32, "1+")
    supported_features: list[SupportedFeatureKey] = field(array(SupportedFeatureKey), "3+", tag=0)
    finalized_features_epoch: int = field(int64, "3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field(array(FinalizedFeatureKey), "3+", tag=2)
    zk_migration_ready: bool = field(boolean, "3+", tag=3)
