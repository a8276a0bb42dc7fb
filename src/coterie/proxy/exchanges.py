"""The requests of a connection that wait for their responses, in order: Kafka responds in the order of the requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from coterie.authentication.sasl import TOKENS
from coterie.proxy.heads import SASL_HANDSHAKE, RequestHead
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest

_EVERY_TOKEN = 2**31  # of a mechanism that is not known: no request comes any more


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and what is to become of its response. ``request`` is decoded where somebody looks at it; ``own_response`` is
    the proxy's frame in place of the broker's, ``is_lost`` a response that the client never gets."""

    head: RequestHead
    request: Any = None
    own_response: bytes | None = None
    is_lost: bool = False
    ticket: Any = None  # of the observer


@dataclass(slots=True)
class Exchanges:
    """Of one connection."""

    waiting: deque[Exchange] = field(default_factory=deque)
    tokens_left: int = 0  # frames of the client that are SASL tokens and no requests
    _tokens_waiting: int = 0

    def sent(self, exchange: Exchange) -> None:
        """The request went to the broker, or has a response of the proxy's own."""
        if exchange.head.has_response:
            self.waiting.append(exchange)

    def token_sent(self) -> None:
        """A SASL token went to the broker, which returns one."""
        self.tokens_left -= 1
        self._tokens_waiting += 1

    def tokens_follow(self, handshake: SaslHandshakeRequest) -> None:
        """The client has sent a SaslHandshake of version 0: tokens without a header follow, then requests again."""
        self.tokens_left = TOKENS.get(handshake.mechanism, _EVERY_TOKEN)

    def responded(self, correlation_id: int) -> Exchange | None:
        """The exchange whose response begins; None for one that no request precedes, and for a SASL token. Earlier
        requests that the broker passed over have none any more."""
        if self._tokens_waiting and not self.waiting:
            self._tokens_waiting -= 1
            return None
        if not any(exchange.head.correlation_id == correlation_id for exchange in self.waiting):
            return None
        while True:
            exchange = self.waiting.popleft()
            if exchange.head.correlation_id == correlation_id:
                return exchange

    def own_responses(self) -> Iterator[bytes]:
        """The proxy's own responses that are due: nothing waits before them."""
        while self.waiting and self.waiting[0].own_response is not None:
            yield self.waiting.popleft().own_response or b""


def has_tokens_behind(head: RequestHead) -> bool:
    """Whether frames without a header follow."""
    return head.api_key == SASL_HANDSHAKE and head.api_version == 0
