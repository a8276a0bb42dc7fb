"""SCRAM as a client (RFC 5802, RFC 7677): what to say, and whether the server is who it says. No IO."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Generator

from coterie.client.errors import KafkaError
from coterie.wire.errors import ErrorCode

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
FEWEST_ITERATIONS = 4096
MOST_ITERATIONS = 1_000_000  # a server that asks for more would keep us busy


def scram(mechanism: str, username: str, password: str, nonce: str) -> Generator[bytes, bytes, None]:
    """Yields each token to send and is sent each answer. Raises KafkaError SASL_AUTHENTICATION_FAILED."""
    algorithm = HASHES[mechanism]
    name = username.replace("=", "=3D").replace(",", "=2C")
    first_bare = f"n={name},r={nonce}"
    server_first = (yield f"n,,{first_bare}".encode()).decode()
    said = _fields(server_first)
    iterations = int(said.get("i", "0"))
    if not said.get("r", "").startswith(nonce) or said["r"] == nonce:
        raise _failed("the broker's nonce is not a continuation of ours")
    if not FEWEST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise _failed(f"{iterations} iterations are outside of {FEWEST_ITERATIONS} to {MOST_ITERATIONS}")
    final_bare = f"c=biws,r={said['r']}"
    signed = f"{first_bare},{server_first},{final_bare}".encode()
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), base64.b64decode(said["s"]), iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    server_final = _fields((yield f"{final_bare},p={proof}".encode()).decode())
    if "e" in server_final:
        raise _failed(server_final["e"])
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    if not hmac.compare_digest(base64.b64decode(server_final.get("v", "")), expected):
        raise _failed("the broker does not know the password either")


def _fields(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in text.split(","))}


def _failed(why: str) -> KafkaError:
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
