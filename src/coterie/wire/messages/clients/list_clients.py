"""ListClients (key 30001): coterie's own, never advertised. The response is one JSON document, the same as over HTTP: the
clients that push metrics (KIP-714) to this broker, made by `broker.pushed_metrics`.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, bytes_, field, int16, message


@message(api_key=30001, versions="0")
class ListClientsRequest(Message):
    pass


@message(api_key=30001, versions="0")
class ListClientsResponse(Message):
    error_code: int = field(int16)
    document: bytes = field(bytes_)
