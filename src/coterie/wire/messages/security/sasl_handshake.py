"""SaslHandshake (key 17): which SASL mechanism follows (KIP-43, KIP-152). Never flexible."""

from __future__ import annotations

from coterie.wire.declaration import Message, array, field, int16, message, string


@message(api_key=17, versions="0-1")
class SaslHandshakeRequest(Message):
    mechanism: str = field(string)


@message(api_key=17, versions="0-1")
class SaslHandshakeResponse(Message):
    error_code: int = field(int16)
    mechanisms: list[str] = field(array(string))
