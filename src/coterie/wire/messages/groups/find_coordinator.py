"""FindCoordinator (key 10): which broker coordinates a group (key type 0). v1 key types and error texts, v3 flexible, v4
several keys at once (KIP-699), v5 abortable errors, v6 share groups (key type 2).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int8, int16, int32, message, string, struct

SEVERAL_FROM = 4


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Message):
    key: str = field(string, "0-3")
    key_type: int = field(int8, "1+")
    coordinator_keys: list[str] = field(array(string), "4+")


@struct
class Coordinator(Struct):
    key: str = field(string)
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    throttle_time_ms: int = field(int32, "1+")
    error_code: int = field(int16, "0-3")
    error_message: str | None = field(string, "1-3", nullable="1-3")
    node_id: int = field(int32, "0-3")
    host: str = field(string, "0-3")
    port: int = field(int32, "0-3")
    coordinators: list[Coordinator] = field(array(Coordinator), "4+")


def keys_of(request: FindCoordinatorRequest, version: int) -> list[str]:
    """One until version 3, any number from 4 on."""
    return request.coordinator_keys if version >= SEVERAL_FROM else [request.key]


def coordinators_response(version: int, coordinators: list[Coordinator]) -> FindCoordinatorResponse:
    """To `keys_of`. Until version 3 the text of no error is its name, as in Kafka."""
    if version >= SEVERAL_FROM:
        return FindCoordinatorResponse(coordinators=coordinators)
    one = coordinators[0]
    text = one.error_message or "NONE"
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=text, node_id=one.node_id, host=one.host, port=one.port
    )
