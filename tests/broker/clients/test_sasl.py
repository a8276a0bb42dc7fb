"""Logins by SASL on real connections: each mechanism, what may come before, what a failure looks like, and sessions that end.

Names of Kafka's: SaslClientsWithInvalidCredentialsTest, SaslAuthenticatorTest, AlterUserScramCredentialsRequestTest.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from coterie.authentication.mechanisms import credential_of, salted
from coterie.authentication.principal import Principal
from coterie.authentication.sasl import HASHES, ScramMechanism
from coterie.broker.broker import Broker
from coterie.broker.clients.scram_credentials import Credential
from coterie.broker.clients.users_file import line_of
from coterie.broker.settings import SettingError
from coterie.client.connection.connection import Connection
from coterie.client.connection.handshake import response_type
from coterie.client.errors import KafkaError
from coterie.client.security import Security
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.broker.served_listeners import record_principals, serving

JAAS = 'PlainLoginModule required user_alice="secret" user_bob="word";'


def alice(given: dict[str, object]) -> contextlib.AbstractAsyncContextManager[tuple[Broker, int]]:
    """A broker with her credentials."""
    salted_passwords = ((each, salted(each.sasl_name, "secret", b"salt", 4096)) for each in ScramMechanism)
    return serving(given, *(Credential("alice", each, 4096, b"salt", by) for each, by in salted_passwords))


def settings(*mechanisms: str, **more: object) -> dict[str, object]:
    own: dict[str, object] = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(mechanisms or ("PLAIN", *HASHES)),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "connection.failed.authentication.delay.ms": "1",
        "offsets.topic.num.partitions": "1",
    }
    return own | {name.replace("_", "."): value for name, value in more.items()}


async def logged_in(port: int, mechanism: str, user: str = "alice", password: str = "secret") -> Connection:
    security = Security("SASL_PLAINTEXT", mechanism=mechanism, username=user, password=password)
    return await Connection.connect("127.0.0.1", port, "c", 20, security)


class Raw:
    """A connection whose frames the test writes itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def opened(cls, port: int) -> Raw:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def frame(self, data: bytes) -> bytes | None:
        """The next frame after these bytes; None where the connection is closed."""
        self._writer.write(data)
        async with asyncio.timeout(20):
            try:
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                return await self._reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError):
                return None

    async def request(self, request: Message, version: int) -> Any:
        """The response; None where the connection is closed."""
        frame = await self.frame(encode_request(7, "raw", request, version))
        return None if frame is None else decode_response(response_type(request), frame, version)

    async def login(self, password: str = "secret", user: str = "alice") -> Any:
        """By PLAIN: the last response."""
        handshake = await self.request(SaslHandshakeRequest("PLAIN"), 1)
        assert handshake.error_code == ErrorCode.NONE
        return await self.request(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()), 2)

    def close(self) -> None:
        self._writer.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", *HASHES])
async def test_a_login_makes_the_principal(mechanism: str) -> None:
    async with alice(settings()) as (broker, port):
        principals = record_principals(broker)
        connection = await logged_in(port, mechanism)
        assert (await connection.request(MetadataRequest([]), MetadataResponse, 20)).brokers
        assert principals == [Principal("User", "alice")]
        assert not broker.connections.unauthenticated
        connection.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", *HASHES])
async def test_invalid_credentials_have_one_line_and_one_error(
    mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    """testProducerWithAuthenticationFailure and its like: the error of an unknown user is that of a wrong password."""
    async with alice(settings()) as (_, port):
        texts = set()
        for user, password in (("alice", "hunter2"), ("nobody", "secret")):
            with pytest.raises(KafkaError) as error:
                await logged_in(port, mechanism, user, password)
            assert error.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
            texts.add(str(error.value))
        assert len(texts) == 1
        connection = await logged_in(port, mechanism)
        connection.close()
    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if f"is refused ({mechanism})" in line]) == 2
    assert not any(word in line for line in lines for word in ("hunter2", "secret", "nobody"))


async def test_before_a_login_nothing_else_is_handled(caplog: pytest.LogCaptureFixture) -> None:
    async with alice(settings()) as (_, port):
        raw = await Raw.opened(port)
        assert await raw.request(HeartbeatRequest("g", 1, "m"), 4) is None
        raw = await Raw.opened(port)
        too_large = (600_000).to_bytes(4, "big") + b"\0\x24\0\0"
        assert await raw.frame(too_large) is None  # sasl.server.max.receive.size
        raw = await Raw.opened(port)
        response = await raw.request(SaslAuthenticateRequest(b"\0alice\0secret"), 2)
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await raw.login()).error_code == ErrorCode.NONE
        assert (await raw.request(MetadataRequest([]), 9)).brokers
        raw.close()
    assert "a request of 600000 bytes; sasl.server.max.receive.size is 524288" in caplog.text


async def test_a_mechanism_that_is_not_enabled_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """testMechanismPluggability and testDisabledMechanism: the response has the enabled ones."""
    async with alice(settings("SCRAM-SHA-256", "GSSAPI")) as (_, port):
        raw = await Raw.opened(port)
        response = await raw.request(SaslHandshakeRequest("GSSAPI"), 1)
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert response.mechanisms == ["SCRAM-SHA-256"]
        assert await raw.request(SaslHandshakeRequest("SCRAM-SHA-256"), 1) is None
    assert caplog.text.count("requests the mechanism 'GSSAPI'") == 1


async def test_a_failed_login_waits_for_its_response_and_is_the_connections_end() -> None:
    async with alice(settings(connection_failed_authentication_delay_ms="50")) as (_, port):
        raw = await Raw.opened(port)
        began_s = time.monotonic()
        response = await raw.login("wrong")
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert time.monotonic() - began_s >= 0.05
        assert await raw.request(SaslHandshakeRequest("PLAIN"), 1) is None


async def test_tokens_without_headers_after_the_first_version_of_the_handshake() -> None:
    """testUnauthenticatedApiVersionsRequestOverPlaintextHandshakeVersion0 and its like: clients before Kafka 1.0."""
    async with alice(settings()) as (broker, port):
        principals = record_principals(broker)
        raw = await Raw.opened(port)
        assert (await raw.request(SaslHandshakeRequest("PLAIN"), 0)).error_code == ErrorCode.NONE
        assert await raw.frame(b"\0\0\0\x0a\0bob\0word!") is None  # a wrong password has no response
        raw = await Raw.opened(port)
        await raw.request(SaslHandshakeRequest("PLAIN"), 0)
        assert await raw.frame(b"\0\0\0\x09\0bob\0word") == b""
        assert (await raw.request(MetadataRequest([]), 9)).brokers
        assert principals == [Principal("User", "bob")]
        raw.close()


async def test_a_session_ends_unless_the_client_logs_in_again() -> None:
    """KIP-368; testCannotReauthenticateWithDifferentPrincipal, testCannotReauthenticateWithDifferentMechanism."""
    async with alice(settings(connections_max_reauth_ms="3600000")) as (broker, port):
        raw = await Raw.opened(port)
        assert (await raw.login()).session_lifetime_ms == 3_600_000
        connection = next(iter(broker.connections)).connection
        state = connection.authentication
        assert state is not None
        first_end_s = state.session_ends_s
        assert (await raw.login()).error_code == ErrorCode.NONE
        assert state.session_ends_s > first_end_s
        state.session_ends_s = broker.loop.time()  # an hour later
        assert (await raw.login()).error_code == ErrorCode.NONE
        assert (await raw.request(MetadataRequest([]), 9)).brokers
        assert (await raw.login("word", "bob")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        raw = await Raw.opened(port)
        await raw.login()
        assert (await raw.request(SaslHandshakeRequest("SCRAM-SHA-256"), 1)).error_code
        raw = await Raw.opened(port)
        await raw.login()
        state = list(broker.connections)[-1].connection.authentication
        assert state is not None
        state.session_ends_s = broker.loop.time()
        assert await raw.request(MetadataRequest([]), 9) is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_users_of_a_file(tmp_path: Path, mechanism: str) -> None:
    """Salted, and read again when it changes."""
    file = tmp_path / "users"

    def write(password: str) -> None:
        salt = secrets.token_bytes(16)
        keys = credential_of("SCRAM-SHA-512", salted("SCRAM-SHA-512", password, salt, 4096), salt, 4096)
        file.write_text(f"# users\n{line_of('carol', 'SCRAM-SHA-512', keys)}\n")
        file.chmod(0o600)

    write("first")
    async with alice(settings(mechanism, coterie_sasl_users_file=str(file))) as (_, port):
        (await logged_in(port, mechanism, "carol", "first")).close()
        write("second, and longer")
        (await logged_in(port, mechanism, "carol", "second, and longer")).close()
        with pytest.raises(KafkaError):
            await logged_in(port, mechanism, "carol", "first")
        file.unlink()
        (await logged_in(port, mechanism, "carol", "second, and longer")).close()


KEYS = "c2FsdA==$a2V5:a2V5"  # salt, stored key and server key


@pytest.mark.parametrize(
    ("text", "mode", "sentence"),
    [
        ("carol:word\n", 0o600, "users:1 is not USER:MECHANISM"),
        (f"carol:SCRAM-SHA-256$999999999:{KEYS}\n", 0o600, "users:1 has 999999999 iterations, which must be from 4096"),
        (f"carol:SCRAM-SHA-256$1:{KEYS}\n", 0o600, "users:1 has 1 iterations"),
        ("", 0o644, "others than its owner can read .*: chmod 600"),
        (None, 0, "cannot be read: .*: No such file"),
    ],
)
async def test_a_file_of_users_that_cannot_be_used(tmp_path: Path, text: str | None, mode: int, sentence: str) -> None:
    file = tmp_path / "users"
    if text is not None:
        file.write_text(text)
        file.chmod(mode)
    with pytest.raises(SettingError, match=sentence) as error:
        async with alice(settings("PLAIN", coterie_sasl_users_file=str(file))):
            pass
    assert "word" not in str(error.value).replace("password", "")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms must name one of PLAIN"),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": ""},
            "PLAIN needs users: listener.name.sasl_plaintext",
        ),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": "x"}, "sasl.jaas.config must be MODULE required"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url"),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "https://a"},
            "coterie.sasl.oauthbearer.allowed.urls must have the URL",
        ),
    ],
)
async def test_a_listener_by_which_nobody_could_log_in(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        async with alice(settings() | given):
            pass


# -- tokens -------------------------------------------------------------------------------------------------------------


class Issuer:
    """Signs tokens; its public key is in a file."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        (folder / "jwks.json").write_text(json.dumps({"keys": [public | {"kid": "one", "use": "sig", "alg": "ES256"}]}))
        self.url = f"file://{folder}/jwks.json"

    def token(self, *, key_id: str = "one", **claims: object) -> str:
        now_s = int(time.time())
        every = {"sub": "alice", "iat": now_s, "exp": now_s + 3_600, "aud": "kafka", "iss": "us"} | claims
        return jwt.encode(every, self._key, "ES256", {"kid": key_id})

    def settings(self, **more: object) -> dict[str, object]:
        return settings(
            "OAUTHBEARER",
            sasl_oauthbearer_jwks_endpoint_url=self.url,
            coterie_sasl_oauthbearer_allowed_urls=self.url,
            sasl_oauthbearer_expected_audience="kafka",
            sasl_oauthbearer_expected_issuer="us",
            **more,
        )


async def bearer_login(port: int, token: str) -> Any:
    """The last response."""
    raw = await Raw.opened(port)
    await raw.request(SaslHandshakeRequest("OAUTHBEARER"), 1)
    response = await raw.request(SaslAuthenticateRequest(f"n,,\x01auth=Bearer {token}\x01\x01".encode()), 2)
    if response.auth_bytes:
        response = await raw.request(SaslAuthenticateRequest(b"\x01"), 2)
    raw.close()
    return response


async def test_tokens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other, issuer = Issuer(tmp_path), Issuer(tmp_path)  # the file has the keys of the second
    now_s = int(time.time())
    unsigned = (
        base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=") + "." + issuer.token().split(".")[1] + "."
    )
    wrong = {
        issuer.token(exp=now_s - 60): "the token has expired",
        issuer.token(nbf=now_s + 600): "the token is not valid yet",
        issuer.token(aud="other"): "the token is for another audience",
        issuer.token(iss="them"): "the token is of another issuer",
        issuer.token(sub=" "): "the token has no claim sub",
        issuer.token(exp="soon"): "the token has no time as its exp",
        issuer.token(key_id="two"): "the token is signed by an unknown key",
        other.token(): "the token is not signed by one of the keys",
        unsigned: "the token is not signed by one of the keys",
        "a.b.c": "the token is not signed by one of the keys",
    }
    async with alice(issuer.settings()) as (_, port):
        response = await bearer_login(port, issuer.token())
        assert response.error_code == ErrorCode.NONE
        assert 0 < response.session_lifetime_ms <= 3_600_000
        for token, reason in wrong.items():
            response = await bearer_login(port, token)
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert reason in (response.error_message or "")
            assert token not in (response.error_message or "")
    assert caplog.text.count("is refused (OAUTHBEARER)") == len(wrong)


async def test_a_refused_token_that_is_not_acknowledged_has_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """franz-go ends the connection at the error of RFC 7628, kafkajs goes on as if it had logged in."""
    issuer = Issuer(tmp_path)
    token = issuer.token(exp=int(time.time()) - 60)
    async with alice(issuer.settings()) as (_, port):
        raw = await Raw.opened(port)
        await raw.request(SaslHandshakeRequest("OAUTHBEARER"), 1)
        response = await raw.request(SaslAuthenticateRequest(f"n,,\x01auth=Bearer {token}\x01\x01".encode()), 2)
        assert response.auth_bytes
        assert await raw.request(MetadataRequest([]), 12) is None
        raw.close()
    lines = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert lines == [
        "a connection from /127.0.0.1 is refused (OAUTHBEARER): authentication failed: the token has expired"
    ]


async def test_tokens_without_a_signature_if_asked_for() -> None:
    parts = [json.dumps({"alg": "none"}), json.dumps({"sub": "alice", "exp": int(time.time()) + 60})]
    token = ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts) + "."
    async with alice(settings("OAUTHBEARER", coterie_sasl_oauthbearer_unsecured_enable="true")) as (_, port):
        assert (await bearer_login(port, token)).error_code == ErrorCode.NONE
