"""SCRAM as a client (RFC 5802, RFC 7677): what to say, and whether the server is who it says. No IO."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Generator

from coterie.authentication.sasl import HASHES
from coterie.client.errors import KafkaError
from coterie.wire.errors import ErrorCode

FEWEST_ITERATIONS = 4096
MOST_ITERATIONS = 1_000_000  # a server that requests more would keep us busy
MOST_DIGITS = len(str(MOST_ITERATIONS))


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
    iterations = int(count) if len(count) <= MOST_DIGITS and count.isdecimal() else 0
    if not fields.get("r", "").startswith(nonce) or fields["r"] == nonce:
        raise _failed("the broker's nonce is not a continuation of ours")
    if not FEWEST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise _failed(f"{count[:20]} iterations are outside of {FEWEST_ITERATIONS} to {MOST_ITERATIONS}")
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
