"""How a broker reaches the others on a listener with TLS and SASL: as a client does, by the settings of its own listener."""

from __future__ import annotations

import asyncio
import logging
import ssl

from coterie.authentication.sasl import HASHES
from coterie.broker.cluster.peers.connections import Dial, PeerStream, open_stream
from coterie.broker.settings import BrokerSettings, SettingError
from coterie.broker.settings.listeners import PLAINTEXT, Listener, client_listeners
from coterie.client.connection.handshake import Handshake
from coterie.client.errors import ConfigError, KafkaError
from coterie.client.security import Security, jaas_login
from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import Address
from coterie.runtime import asyncio_tls

logger = logging.getLogger(__name__)

REPORT_AGAIN_S = 60.0
RETIRED_AFTER = 0.85  # of the time that a login lasts
# reconnect.backoff.ms and reconnect.backoff.max.ms, by Kafka's defaults. Each partition of a follower is due by itself: fifty
# had fifty handshakes a second.
RECONNECT = Backoff(50, 1_000)


def peer_security(settings: BrokerSettings, listener: Listener) -> Security:
    """Raises SettingError, without any secret, for settings by which the broker cannot reach the others."""
    mechanism = settings.security(listener.name).sasl_mechanism_inter_broker_protocol
    config = settings.security(listener.name, mechanism)
    options: dict[str, str] = {}
    if listener.has_sasl:
        if mechanism not in ("PLAIN", *HASHES):
            known = ", ".join(("PLAIN", *HASHES))
            raise SettingError(f"sasl.mechanism.inter.broker.protocol must be one of {known}, not {mechanism}")
        try:
            options = jaas_login(config.sasl_jaas_config or "")
        except ConfigError as error:
            raise SettingError(str(error)) from None
        if not options.get("username") or not options.get("password"):
            prefix = f"listener.name.{listener.name.lower()}.{mechanism.lower()}"
            raise SettingError(f"{prefix}.sasl.jaas.config must have username and password, for the other brokers")
    security = Security(
        listener.security_protocol,
        config.ssl_truststore_location,
        config.ssl_keystore_location if config.ssl_client_auth != "none" else None,
        config.ssl_key_password,
        check_host=bool(config.ssl_endpoint_identification_algorithm),
        mechanism=mechanism,
        username=options.get("username"),
        password=options.get("password"),
    )
    try:
        security.context()
    except ConfigError as error:
        raise SettingError(str(error)) from None
    return security


def peer_dial(settings: BrokerSettings) -> Dial:
    """How a broker of these settings reaches the others. Raises SettingError."""
    listener = client_listeners(settings)[0]
    if listener.security_protocol == PLAINTEXT:
        return open_stream
    return SecuredDial(peer_security(settings, listener), f"broker-{settings.current.node_id}")


class SecuredDial:
    """Opens streams whose TLS and login are done: a `Dial`. A failure of either has a line in the log, once a minute, and is
    followed by a pause, by `RECONNECT`, in which streams to that address are refused at once."""

    def __init__(self, security: Security, client_id: str) -> None:
        self._security, self._client_id = security, client_id
        self._reported_s: dict[Address, float] = {}
        self._failed: dict[Address, tuple[int, float]] = {}  # how often in a row, and when the pause ends

    async def __call__(self, host: str, port: int) -> PeerStream:
        """Raises OSError, ConnectionError among them where the login is refused."""
        loop, address = asyncio.get_running_loop(), (host, port)
        failures, until_s = self._failed.get(address, (0, 0.0))
        if loop.time() < until_s:
            raise ConnectionError(f"broker at {host}:{port}: it was not reached a moment ago")
        try:
            asyncio_tls.enable()
            context = self._security.context()  # its files may have changed
            _, stream = await loop.create_connection(PeerStream, host, port, ssl=context)
            try:
                await self._log_in(stream)
            except BaseException:
                stream.abort()
                raise
        except (ssl.SSLError, KafkaError, ConfigError) as error:
            self._report(host, port, error)
            self._failed[address] = failures + 1, loop.time() + RECONNECT.pause_ms(failures) / 1000
            raise ConnectionError(f"broker at {host}:{port}: {error}") from error
        self._failed.pop(address, None)
        return stream

    async def _log_in(self, stream: PeerStream) -> None:
        handshake = Handshake(self._client_id, self._security.login())
        frame: bytes | None = handshake.start()
        while frame is not None:
            frame = handshake.response(await stream.exchange(frame))
        if handshake.session_ms:
            loop = asyncio.get_running_loop()
            stream.retired_at_s = loop.time() + handshake.session_ms / 1000 * RETIRED_AFTER

    def _report(self, host: str, port: int, error: Exception) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._reported_s.get((host, port), now_s - REPORT_AGAIN_S) >= REPORT_AGAIN_S:
            self._reported_s[host, port] = now_s
            logger.warning("the broker at %s:%d cannot be reached by this one: %s", host, port, error)
