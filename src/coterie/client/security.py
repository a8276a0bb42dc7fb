"""How a connection is kept private and who it is for: TLS, then SASL, by Kafka's settings.

A driver opens the connection with `Security.context` and, once versions are agreed on, carries out `Security.login`.
Certificates and keys are PEM files, as Apache Kafka's PEM stores (KIP-651) and librdkafka have them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.authentication.sasl import HASHES, BadJaas, jaas_options
from coterie.client.errors import ConfigError, KafkaError, check
from coterie.client.scram import scram
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    import ssl

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER = "OAUTHBEARER"

Login = Generator[tuple[Message, type[Message]], Any, int]  # returns how long it lasts (ms), 0 for ever
TokenCallback = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Security:
    """Plain data, so that it can travel to a Spark task; secrets stay out of its repr. ``token_callback`` returns a token for
    each login by OAUTHBEARER, in a thread; ``token_file`` has one, and is read at each login. ``is_token``: username and
    password are the id and the HMAC of a delegation token (KIP-48)."""

    protocol: str = "PLAINTEXT"
    truststore: str | None = None  # PEM file of certificate authorities; None: the system's
    keystore: str | None = None  # PEM file of our certificate and key
    key_password: str | None = field(default=None, repr=False)
    check_host: bool = True
    mechanism: str = "PLAIN"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token_callback: TokenCallback | None = field(default=None, repr=False)
    token_file: str | None = None
    is_token: bool = False

    def context(self) -> ssl.SSLContext | None:
        """None for a connection without TLS. Raises ConfigError for files that cannot be used."""
        if self.protocol not in ("SSL", "SASL_SSL"):
            return None
        import ssl  # a client without TLS does without it

        try:
            context = ssl.create_default_context(cafile=self.truststore)
            if self.keystore is not None:
                context.load_cert_chain(self.keystore, password=self.key_password)
        except (OSError, ssl.SSLError) as error:
            file = self.keystore if self.truststore is None else self.truststore
            raise ConfigError(f"the TLS files cannot be used (PEM is wanted; {file}): {error}") from error
        context.check_hostname = self.check_host
        return context

    @property
    def has_login(self) -> bool:
        """Whether a connection begins with SASL."""
        return self.protocol.startswith("SASL_")

    def login(self) -> Login:
        """Yields (request, class of its response) and is sent the responses; ends without a step where there is no SASL.
        Raises KafkaError."""
        if not self.has_login:
            return 0
        response = yield SaslHandshakeRequest(self.mechanism), SaslHandshakeResponse
        if response.error_code:
            offered = ", ".join(response.mechanisms) or "none"
            text = f"the broker has no SASL mechanism {self.mechanism}; it has {offered}"
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, text)
        tokens = self._tokens()
        token = next(tokens)
        while True:
            response = yield SaslAuthenticateRequest(token), SaslAuthenticateResponse
            check(response.error_code, response.error_message)
            try:
                token = tokens.send(response.auth_bytes)
            except StopIteration:
                return int(response.session_lifetime_ms)

    def _tokens(self) -> Generator[bytes, bytes, None]:
        username, password = self.username or "", self.password or ""
        if self.mechanism in HASHES:
            return scram(self.mechanism, username, password, secrets.token_urlsafe(24), is_token=self.is_token)
        if self.mechanism == OAUTHBEARER:
            return _bearer(self._token())
        return _plain(username, password)

    def _token(self) -> str:
        """Raises KafkaError SASL_AUTHENTICATION_FAILED where there is none."""
        try:
            if self.token_callback is not None:
                return self.token_callback()
            return Path(self.token_file or "").read_text("utf-8").strip()
        except Exception as error:
            text = f"there is no token for OAUTHBEARER: {type(error).__name__}: {error}"
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text) from error


def _plain(username: str, password: str) -> Generator[bytes, bytes, None]:
    yield f"\0{username}\0{password}".encode()


def _bearer(token: str) -> Generator[bytes, bytes, None]:
    """RFC 7628: an error in JSON has to be acknowledged before the broker refuses the login."""
    if (yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()):
        yield b"\x01"


def jaas_login(text: str) -> dict[str, str]:
    """The options of a sasl.jaas.config, with ``username`` and ``password`` among them. Raises ConfigError."""
    try:
        return jaas_options(text) if text else {}
    except BadJaas as error:
        raise ConfigError(str(error)) from None


PLAINTEXT = Security()
