"""SASL without the digests of its mechanisms: which there are, an exchange as its server has it, what a server keeps of a
password for SCRAM (RFC 5802), and the text of sasl.jaas.config.

An exchange is a generator that is sent the client's tokens and yields its own. Pure: credentials are looked up by functions,
and randomness is an argument. Every failure of one mechanism has the same text, so that a client cannot learn whether a user
exists.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, field
from enum import IntEnum


class ScramMechanism(IntEnum):
    """Numbered as in Kafka's requests (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """Its name in hashlib."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


HASHES = {mechanism.sasl_name: mechanism.digest for mechanism in ScramMechanism}
TOKENS = {"PLAIN": 1, **dict.fromkeys(HASHES, 2), "OAUTHBEARER": 1}  # of a client, until it is authenticated
MECHANISMS = tuple(TOKENS)  # in the order in which they are named to users


class AuthenticationFailed(Exception):
    """The login is refused; the text is for the client and has no secret in it."""


class RefusalToken(bytes):
    """A token that says that the login is refused, which the client has to acknowledge; not all do."""

    reason: str

    def __new__(cls, token: bytes, reason: str) -> RefusalToken:
        """``reason``: for the broker's log."""
        made = super().__new__(cls, token)
        made.reason = reason
        return made


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The end of an exchange. ``name``: the principal's; ``token``: the last one for the client; ``expires_ms``: when what the
    client showed ends, in ms since the epoch, None where it does not; ``is_by_token``: by a delegation token."""

    name: str
    token: bytes = b""
    expires_ms: int | None = None
    is_by_token: bool = False


Exchange = Generator[bytes, bytes, Authenticated]  # begun by `begin`


def begin(exchange: Exchange) -> Exchange:
    """Up to the wait for the client's first token."""
    next(exchange)
    return exchange


def step(exchange: Exchange, token: bytes) -> bytes | Authenticated:
    """The server's next token, or the end. Raises AuthenticationFailed."""
    try:
        return exchange.send(token)
    except StopIteration as end:
        authenticated: Authenticated = end.value
        return authenticated


MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384  # that a server keeps, as Kafka's


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"=;]+)|([=;]))')
_USER = "user_"


class BadJaas(ValueError):
    """A text that is no such configuration; no part of it is repeated, since it holds passwords."""


def jaas_options(text: str) -> dict[str, str]:
    """The options of the one login module. Raises BadJaas."""
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[-1] != (";", True) or any(token == (";", True) for token in tokens[:-1]):
        raise BadJaas("sasl.jaas.config must be MODULE required NAME=VALUE …; with one semicolon at its end")
    options, rest = dict[str, str](), tokens[2:-1]
    for at in range(0, len(rest), 3):
        parts = rest[at : at + 3]
        if len(parts) < 3 or parts[1] != ("=", True) or parts[0][1] or parts[2][1]:
            raise BadJaas('an option of sasl.jaas.config must be NAME=VALUE, or NAME="VALUE"')
        options[parts[0][0]] = parts[2][0]
    return options


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Each with whether it is punctuation. Raises BadJaas."""
    tokens, at, end = list[tuple[str, bool]](), 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadJaas("sasl.jaas.config has a quotation mark that is not closed")
        quoted, plain, sign = match.groups()
        tokens.append(
            (sign, True) if sign else (re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain, False)
        )
        at = match.end()
    return tokens


def users_of(text: str) -> dict[str, str]:
    """The passwords by user of a broker's PlainLoginModule: its options user_NAME. Raises BadJaas."""
    return {name.removeprefix(_USER): value for name, value in jaas_options(text).items() if name.startswith(_USER)}
