"""SCRAM credentials: what Apache Kafka 4.3.0 accepts and refuses, and that they outlive the broker without passwords."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.authentication.sasl import ScramMechanism
from coterie.broker.clients.scram_credentials import Credential, ScramCredentials
from coterie.broker.requests.turns import finish
from coterie.broker.storage.disk import DiskFileSystem
from coterie.log.filesystem import MemoryFileSystem
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from coterie.wire.messages.security.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tests.broker.connections.test_server import Client, broker

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def upsert(user: str, mechanism: int = SHA_256, iterations: int = 4096, salted: bytes = b"p" * 32) -> Credential:
    return Credential(user, mechanism, iterations, b"salt", salted)


# testAlterNothing, testAlterTooFewIterations, testAlterTooManyIterations, testAlterEmptyUser, testAlterUnknownMechanism,
# testAlterSameThingTwice, testDeleteSomethingThatDoesNotExist; testAlterAndDescribe is the story of the requests below.
CHANGES = [
    ([], {}),
    ([upsert("a", iterations=1_000_000_000)], {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
    ([upsert("a"), upsert("a")], {"a": ErrorCode.DUPLICATE_RESOURCE}),
    ([upsert("a")], {"a": ErrorCode.NONE}),
    ([upsert("a", iterations=16_384)], {"a": ErrorCode.NONE}),
    ([upsert("a", iterations=4_095)], {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
    ([upsert("a", iterations=16_385)], {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
    ([upsert("a", salted=b"")], {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
    ([upsert("")], {"": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
    ([upsert("a", mechanism=9)], {"a": ErrorCode.UNSUPPORTED_SASL_MECHANISM}),
    ([upsert("a"), upsert("a", SHA_512), upsert("b")], {"a": ErrorCode.DUPLICATE_RESOURCE, "b": ErrorCode.NONE}),
    ([Credential("old", SHA_256)], {"old": ErrorCode.NONE}),
    ([Credential("old", SHA_512)], {"old": ErrorCode.RESOURCE_NOT_FOUND}),
    ([Credential("old", 9)], {"old": ErrorCode.UNSUPPORTED_SASL_MECHANISM}),
    ([Credential("a", SHA_256), upsert("b")], {"a": ErrorCode.RESOURCE_NOT_FOUND, "b": ErrorCode.NONE}),
    ([Credential("old", SHA_256), upsert("old")], {"old": ErrorCode.DUPLICATE_RESOURCE}),
]


@pytest.mark.parametrize(("changes", "expected"), CHANGES)
def test_changes_are_applied_or_refused(changes: list[Credential], expected: dict[str, ErrorCode]) -> None:
    credentials = ScramCredentials(MemoryFileSystem())
    finish(credentials.altering([upsert("old")]))
    results = finish(credentials.altering(changes))
    assert {user: refusal.code if refusal else ErrorCode.NONE for user, refusal in results.items()} == expected
    applied = {c.user: c for c in changes if not expected[c.user]}
    users = {"old", *(u for u, c in applied.items() if c.salted_password)}
    users -= {u for u, c in applied.items() if c.salted_password is None}
    assert set(credentials.users()) == users


def test_credentials_outlive_the_broker_and_hold_no_password(tmp_path: Path) -> None:
    credentials = ScramCredentials(DiskFileSystem(tmp_path))
    finish(credentials.altering([upsert("a", SHA_256, 5000)]))
    finish(credentials.altering([upsert("a", SHA_512, 6000)]))
    finish(credentials.altering([Credential("a", SHA_256)]))
    assert ScramCredentials(DiskFileSystem(tmp_path)).iterations("a") == {SHA_512: 6000}
    kept = json.loads((tmp_path / "scram_credentials.json").read_bytes())["content"]["a"]["SCRAM_SHA_512"]
    assert set(kept) == {"iterations", "salt", "stored_key", "server_key"}


def test_keys_are_those_of_rfc_7677() -> None:
    """The example of RFC 7677: user "user", password "pencil"."""
    import base64
    import hashlib
    import hmac

    fs = MemoryFileSystem()
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    finish(ScramCredentials(fs).altering([Credential("user", SHA_256, 4096, salt, salted)]))
    kept = json.loads(fs.read_file("scram_credentials.json"))["content"]["user"]["SCRAM_SHA_256"]
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s={base64.b64encode(salt).decode()},i=4096"
    message = f"{first},c=biws,r={nonce}".encode()
    signature = hmac.digest(base64.b64decode(kept["server_key"]), message, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_signature = hmac.digest(base64.b64decode(kept["stored_key"]), message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, client_signature, strict=True))
    assert hashlib.sha256(client_key).digest() == base64.b64decode(kept["stored_key"])


async def describe(client: Client, users: list[str] | None) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    requested = None if users is None else [UserName(user) for user in users]
    response = await client.ask(DescribeUserScramCredentialsRequest(requested), DescribeUserScramCredentialsResponse, 0)
    assert response.error_code == ErrorCode.NONE
    return {r.user: (r.error_code, [(c.mechanism, c.iterations) for c in r.credential_infos]) for r in response.results}


async def test_requests_set_describe_and_remove() -> None:
    async with broker() as connect:
        client = await connect()
        assert await describe(client, None) == {}
        for mechanism, iterations in ((SHA_256, 4096), (SHA_512, 8192)):
            added = [ScramCredentialUpsertion("alice", mechanism, iterations, b"salt", b"p" * 32)]
            request = AlterUserScramCredentialsRequest([], added)
            response = await client.ask(request, AlterUserScramCredentialsResponse, 0)
            assert [(r.user, r.error_code) for r in response.results] == [("alice", 0)]
        both = {"alice": (0, [(1, 4096), (2, 8192)])}
        assert await describe(client, None) == await describe(client, []) == both
        assert await describe(client, ["nobody", "alice", "alice"]) == {
            "nobody": (ErrorCode.RESOURCE_NOT_FOUND, []),
            "alice": (ErrorCode.DUPLICATE_RESOURCE, []),
        }
        removal = AlterUserScramCredentialsRequest([ScramCredentialDeletion("alice", SHA_256)])
        await client.ask(removal, AlterUserScramCredentialsResponse, 0)
        assert await describe(client, ["alice"]) == {"alice": (0, [(2, 8192)])}
