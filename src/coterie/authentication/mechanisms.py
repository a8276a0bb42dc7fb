"""The mechanisms of SASL as their server has them: PLAIN (RFC 4616), OAUTHBEARER (RFC 7628), and SCRAM (RFC 5802, RFC 7677)
with the keys that a server keeps of a password."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from coterie.authentication.sasl import (
    HASHES,
    MIN_ITERATIONS,
    Authenticated,
    AuthenticationFailed,
    Exchange,
    RefusalToken,
    ScramCredential,
)

_WRONG = "authentication failed: the user or the password is wrong"
MAX_NAME_BYTES = 1_024
_PAIRS = r"(?:[A-Za-z]+=[^\x01]*\x01)*"
_FIRST_OF_BEARER = re.compile(
    rf"[ny],(?:a=([^,]*))?,\x01{_PAIRS}?auth=Bearer +([-A-Za-z0-9._~+/]+=*)\x01{_PAIRS}\x01", re.IGNORECASE
)
_INVALID = b'{"status":"invalid_token"}'

_FIRST_OF_SCRAM = re.compile(
    r"(?P<header>[ny],(?:a=(?P<authorization>[^,]*))?,)(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[^,]+)(?:,(?P<extensions>.*))?)"
)
_LAST_OF_SCRAM = re.compile(r"(?P<without>c=(?P<binding>[^,]*),r=(?P<nonce>[^,]*)(?:,.*)?),p=(?P<proof>[^,]*)")
_SALT_BYTES = 24


def plain(is_password: Callable[[str, str], bool]) -> Exchange:
    """``is_password`` takes as long for an unknown user as for a wrong password."""
    token = yield b""
    parts = token.split(b"\0")
    if len(parts) != 3:
        raise AuthenticationFailed("authentication failed: a token of PLAIN is [user] NUL user NUL password")
    try:
        authorization, user, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise AuthenticationFailed("authentication failed: a token of PLAIN is UTF-8") from None
    if len(parts[1]) > MAX_NAME_BYTES or not user or not password or not is_password(user, password):
        raise AuthenticationFailed(_WRONG)
    if authorization not in ("", user):
        raise AuthenticationFailed("authentication failed: a client cannot act for another user")
    return Authenticated(user)


def is_password_of(passwords: Mapping[str, str], user: str, password: str) -> bool:
    """Compares with the user's password in a time that does not hang on either."""
    known = passwords.get(user)
    expected = password if known is None else known
    return hmac.compare_digest(expected.encode(), password.encode()) and known is not None


class InvalidToken(Exception):
    """A token that is refused; the text says why, without the token."""


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """Of a token that is valid."""

    principal: str
    expires_ms: int


def oauthbearer(validate: Callable[[str], TokenClaims]) -> Exchange:
    """``validate`` raises InvalidToken."""
    message = (yield b"").decode("utf-8", "replace")
    first = _FIRST_OF_BEARER.fullmatch(message)
    if first is None:
        raise AuthenticationFailed("authentication failed: the first message of OAUTHBEARER has no token")
    authorization, token = first.groups()
    try:
        claims = validate(token)
    except InvalidToken as error:
        refused = f"authentication failed: {error}"
        yield RefusalToken(_INVALID, refused)
        raise AuthenticationFailed(refused) from None
    if authorization not in (None, "", claims.principal):
        raise AuthenticationFailed("authentication failed: a client cannot act for another user")
    return Authenticated(claims.principal, expires_ms=claims.expires_ms)


def credential_of(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The keys of a salted password."""
    algorithm = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    return ScramCredential(salt, iterations, stored_key, hmac.digest(salted_password, b"Server Key", algorithm))


def salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password, whose iterations take milliseconds."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def is_password(mechanism: str, credential: ScramCredential, password: str) -> bool:
    """Whether a credential is that of a password."""
    derived = salted(mechanism, password, credential.salt, credential.iterations)
    own = credential_of(mechanism, derived, credential.salt, credential.iterations)
    return hmac.compare_digest(own.stored_key, credential.stored_key)


def nobodys(mechanism: str, user: str, secret: bytes) -> ScramCredential:
    """A credential that no password has, always the same for a user: an unknown one sees the exchange of a wrong password."""
    material = hmac.digest(secret, f"{mechanism} {user}".encode(), "sha512")
    size = hashlib.new(HASHES[mechanism]).digest_size
    return ScramCredential(material[:_SALT_BYTES], MIN_ITERATIONS, material[:size], material[-size:])


class Account(NamedTuple):
    """What a login is checked by. ``name``: the principal's, of a delegation token its owner's; ``expires_ms``: as of
    `Authenticated`."""

    credential: ScramCredential
    name: str
    expires_ms: int | None = None


def scram(mechanism: str, lookup: Callable[[str, bool], Account], nonce: str) -> Exchange:
    """``lookup`` has the name of a user, or the id of a delegation token with True, which the client's extension ``tokenauth``
    says (KIP-48); it returns an account of `nobodys` for an unknown one. ``nonce``: the server's, fresh for each exchange."""
    first = _FIRST_OF_SCRAM.fullmatch(_text((yield b"")))
    if first is None:
        raise _failed(mechanism)
    user = first["user"].replace("=2C", ",").replace("=3D", "=")
    if first["authorization"] not in (None, "", first["user"]):
        raise AuthenticationFailed("authentication failed: a client cannot act for another user")
    is_token = "tokenauth=true" in (first["extensions"] or "").lower().split(",")
    credential, name, expires_ms = lookup(user, is_token)
    whole_nonce = first["nonce"] + nonce
    server_first = f"r={whole_nonce},s={_encoded(credential.salt)},i={credential.iterations}"
    final = _LAST_OF_SCRAM.fullmatch(_text((yield server_first.encode())))
    if final is None:
        raise _failed(mechanism)
    is_same = final["nonce"] == whole_nonce and final["binding"] == _encoded(first["header"].encode())
    signed = f"{first['bare']},{server_first},{final['without']}".encode()
    if not _is_proof(mechanism, credential, signed, final["proof"]) or not is_same:
        raise _failed(mechanism)
    signature = hmac.digest(credential.server_key, signed, HASHES[mechanism])
    return Authenticated(name, f"v={_encoded(signature)}".encode(), expires_ms, is_by_token=is_token)


def _is_proof(mechanism: str, credential: ScramCredential, signed: bytes, proof: str) -> bool:
    algorithm = HASHES[mechanism]
    signature = hmac.digest(credential.stored_key, signed, algorithm)
    try:
        shown = base64.b64decode(proof, validate=True)
    except ValueError:
        shown = b""
    padded = shown[: len(signature)].ljust(len(signature), b"\0")
    client_key = bytes(a ^ b for a, b in zip(signature, padded, strict=True))
    is_key = hmac.compare_digest(hashlib.new(algorithm, client_key).digest(), credential.stored_key)
    return is_key and len(shown) == len(signature)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("authentication failed: a token of SCRAM is UTF-8") from None


def _failed(mechanism: str) -> AuthenticationFailed:
    return AuthenticationFailed(f"authentication failed: the user or the password is wrong ({mechanism})")
