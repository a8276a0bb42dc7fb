"""ExplainGroup (key 30000): coterie's own, never advertised. The response is one JSON document, the same as over HTTP, made
by `broker.explanation`.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, bytes_, field, int16, message, string


@message(api_key=30000, versions="0")
class ExplainGroupRequest(Message):
    group_id: str = field(string)


@message(api_key=30000, versions="0")
class ExplainGroupResponse(Message):
    error_code: int = field(int16)
    document: bytes = field(bytes_)
