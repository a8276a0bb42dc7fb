"""How a connection is kept private and who it is for: TLS, then SASL, by Kafka's settings.

A driver opens the connection with `Security.context` and, once versions are agreed on, carries out `Security.login`.
Certificates and keys are PEM files, as Apache Kafka's PEM stores (KIP-651) and librdkafka have them.

Of SCRAM (RFC 5802, RFC 7677) `scram` says what to send, and whether the server is who it says. No IO.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.authentication.sasl import HASHES, BadJaas, jaas_options
from coterie.client.errors import ConfigError, KafkaError, check
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    import ssl

_FEWEST_ITERATIONS = 4096
_MOST_ITERATIONS = 1_000_000  # a server that requests more would keep us busy
_MOST_DIGITS = len(str(_MOST_ITERATIONS))
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


def scram(
    mechanism: str, username: str, password: str, nonce: str, *, is_token: bool = False
) -> Generator[bytes, bytes, None]:
    """Yields each token to send and is sent each response. ``is_token``: the user is the id of a delegation token (KIP-48).
    Raises KafkaError SASL_AUTHENTICATION_FAILED."""
    algorithm = HASHES[mechanism]
    name = username.replace("=", "=3D").replace(",", "=2C")
    first_bare = f"n={name},r={nonce}{',tokenauth=true' if is_token else ''}"
    server_first = _text((yield f"n,,{first_bare}".encode()))
    fields = _fields(server_first)
    count = fields.get("i", "")
    iterations = int(count) if len(count) <= _MOST_DIGITS and count.isdecimal() else 0
    if not fields.get("r", "").startswith(nonce) or fields["r"] == nonce:
        raise _failed("the broker's nonce is not a continuation of ours")
    if not _FEWEST_ITERATIONS <= iterations <= _MOST_ITERATIONS:
        raise _failed(f"{count[:20]} iterations are outside of {_FEWEST_ITERATIONS} to {_MOST_ITERATIONS}")
    final_bare = f"c=biws,r={fields['r']}"
    signed = f"{first_bare},{server_first},{final_bare}".encode()
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), _binary(fields.get("s", "")), iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    server_final = _fields(_text((yield f"{final_bare},p={proof}".encode())))
    if "e" in server_final:
        raise _failed(server_final["e"])
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    if not hmac.compare_digest(_binary(server_final.get("v", "")), expected):
        raise _failed("the broker does not know the password either")


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise _failed("the broker's token is not UTF-8") from None


def _binary(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _failed("the broker's token is not base64") from None


def _fields(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in text.split(","))}


def _failed(why: str) -> KafkaError:
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
