"""A broker's node /brokers/ids/N read, of any version: where it listens, and its rack."""

from __future__ import annotations

import json
from dataclasses import dataclass

from coterie.text.addresses import parse_address
from coterie.zookeeper.operations import Corrupt

PLAINTEXT = "PLAINTEXT"
_MALFORMED = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """A listener; ``security_protocol`` as Kafka names it: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."""

    host: str
    port: int
    listener: str = PLAINTEXT
    security_protocol: str = PLAINTEXT


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """``endpoints``: one at least."""

    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None

    def has_protocol(self, protocol: str) -> bool:
        """Whether it has a listener of that protocol."""
        return any(e.security_protocol == protocol for e in self.endpoints)

    @property
    def address(self) -> tuple[str, int]:
        """As `address_by` PLAINTEXT."""
        return self.address_by(PLAINTEXT)

    def address_by(self, protocol: str) -> tuple[str, int]:
        """The address of the broker's first listener of that protocol, or of its first."""
        reached = next((e for e in self.endpoints if e.security_protocol == protocol), self.endpoints[0])
        return reached.host, reached.port


def registration_of(text: str) -> BrokerRegistration:
    """Raises Corrupt."""
    try:
        node = json.loads(text)
        protocols = node.get("listener_security_protocol_map", {})
        endpoints = tuple(_endpoint(str(one), protocols) for one in node.get("endpoints", ()))
        if not endpoints:  # version 1
            endpoints = (BrokerEndpoint(str(node["host"]), int(node["port"])),)
        rack = node.get("rack")
        return BrokerRegistration(endpoints, None if rack is None else str(rack))
    except _MALFORMED as error:
        raise Corrupt(f"a broker's node holds {text[:200]!r}") from error


def _endpoint(text: str, protocols: dict[str, str]) -> BrokerEndpoint:
    listener, _, address = text.partition("://")
    return BrokerEndpoint(*parse_address(address), listener, str(protocols.get(listener, listener)))
