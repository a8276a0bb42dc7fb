"""The exchanges of SASL as the server has them: bytes in, bytes out. SCRAM meets the client's own exchange."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.authentication.mechanisms import (
    Account,
    InvalidToken,
    TokenClaims,
    credential_of,
    is_password,
    is_password_of,
    nobodys,
    oauthbearer,
    plain,
    salted,
    scram,
)
from coterie.authentication.sasl import (
    HASHES,
    Authenticated,
    AuthenticationFailed,
    BadJaas,
    Exchange,
    ScramCredential,
    begin,
    jaas_options,
    step,
    users_of,
)
from coterie.client.errors import KafkaError
from coterie.client.security import scram as client_scram

SECRET = b"s" * 32
PASSWORDS = {"alice": "secret", "bob": "pass,w=rd"}


def credential(mechanism: str, password: str) -> ScramCredential:
    return credential_of(mechanism, salted(mechanism, password, b"salt", 4096), b"salt", 4096)


def lookup(mechanism: str, user: str) -> ScramCredential:
    password = PASSWORDS.get(user)
    return nobodys(mechanism, user, SECRET) if password is None else credential(mechanism, password)


def scram_server(mechanism: str) -> Exchange:
    return begin(scram(mechanism, lambda user, _: Account(lookup(mechanism, user), user), "of-the-server"))


def login(mechanism: str, user: str, password: str) -> Authenticated:
    """By the client's own exchange, which checks the server too."""
    server, client = scram_server(mechanism), client_scram(mechanism, user, password, "of-the-client")
    token = next(client)
    while True:
        result = step(server, token)
        if isinstance(result, Authenticated):
            with pytest.raises(StopIteration):
                client.send(result.token)
            return result
        token = client.send(result)


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("user", PASSWORDS)
def test_scram(mechanism: str, user: str) -> None:
    assert login(mechanism, user, PASSWORDS[user]).name == user


@pytest.mark.parametrize("mechanism", HASHES)
def test_scram_with_a_wrong_password_and_an_unknown_user_look_the_same(mechanism: str) -> None:
    """The same steps, sizes and text; an unknown user has the same salt each time."""
    shown = {}
    for user in ("alice", "carol"):
        server = scram_server(mechanism)
        client = client_scram(mechanism, user, "wrong", "n")
        first = step(server, next(client))
        assert isinstance(first, bytes)
        with pytest.raises(AuthenticationFailed) as error:
            step(server, client.send(first))
        shown[user] = str(error.value)
    assert shown["alice"] == shown["carol"]
    assert nobodys(mechanism, "carol", SECRET) == nobodys(mechanism, "carol", SECRET)
    assert nobodys(mechanism, "carol", SECRET).salt != nobodys(mechanism, "dave", SECRET).salt
    assert len(nobodys(mechanism, "carol", SECRET).stored_key) == hashlib.new(HASHES[mechanism]).digest_size


@pytest.mark.parametrize("mechanism", HASHES)
def test_scram_by_a_delegation_token(mechanism: str) -> None:
    """KIP-48: the principal is the token's owner, and the login ends with the token. A user's password is no token's."""
    requested = []

    def look_up(user: str, is_token: bool) -> Account:
        requested.append((user, is_token))
        return Account(credential(mechanism, "hmac" if is_token else "password"), "alice", 7 if is_token else None)

    def log_in(password: str, *, is_token: bool) -> Authenticated:
        server = begin(scram(mechanism, look_up, "s"))
        client = client_scram(mechanism, "id", password, "c", is_token=is_token)
        first = step(server, next(client))
        assert isinstance(first, bytes)
        end = step(server, client.send(first))
        assert isinstance(end, Authenticated)
        return end

    end = log_in("hmac", is_token=True)
    assert (end.name, end.expires_ms, end.is_by_token) == ("alice", 7, True)
    end = log_in("password", is_token=False)
    assert (end.expires_ms, end.is_by_token) == (None, False)
    for password, is_token in (("password", True), ("hmac", False)):
        with pytest.raises(AuthenticationFailed):
            log_in(password, is_token=is_token)
    assert requested == [("id", True), ("id", False), ("id", True), ("id", False)]


@pytest.mark.parametrize(
    ("extensions", "is_token"),
    [(b"", False), (b",tokenauth=true", True), (b",a=b,tokenauth=TRUE", True), (b",tokenauth=false", False)],
)
def test_extensions_of_scram(extensions: bytes, is_token: bool) -> None:
    requested = []

    def look_up(user: str, of_token: bool) -> Account:
        requested.append(of_token)
        return Account(credential("SCRAM-SHA-256", "x"), user)

    step(begin(scram("SCRAM-SHA-256", look_up, "s")), b"n,,n=id,r=c" + extensions)
    assert requested == [is_token]


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    kept = credential_of("SCRAM-SHA-256", salted("SCRAM-SHA-256", "pencil", salt, 4096), salt, 4096)
    server = begin(scram("SCRAM-SHA-256", lambda user, _: Account(kept, user), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"))
    assert step(server, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    end = step(
        server,
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    )
    assert end == Authenticated("user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=alice",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,a=bob,n=alice,r=x",
        b"\xff",
        b"n,,n=alice,r=",
    ],
)
def test_first_messages_of_scram_that_are_none(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        step(scram_server("SCRAM-SHA-256"), first)


def finals() -> list[bytes]:
    kept = credential("SCRAM-SHA-256", "secret")
    bare, server_first = "n=alice,r=x", "r=xof-the-server,s=c2FsdA==,i=4096"

    def signed(without: str) -> bytes:
        key = hmac.digest(salted("SCRAM-SHA-256", "secret", b"salt", 4096), b"Client Key", "sha256")
        signature = hmac.digest(kept.stored_key, f"{bare},{server_first},{without}".encode(), "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        return f"{without},p={proof}".encode()

    return [
        signed("c=biws,r=x"),
        signed("c=eSws,r=xof-the-server"),
        signed("c=biws,r=xof-the-server") + b"AAAA",
        b"c=biws,r=xof-the-server,p=",
        b"c=biws,r=xof-the-server,p=!",
        b"c=biws,r=xof-the-server",
    ]


@pytest.mark.parametrize("final", finals())
def test_final_messages_of_scram_that_are_refused(final: bytes) -> None:
    """Another nonce, another binding, more than a proof, and less."""
    server = scram_server("SCRAM-SHA-256")
    step(server, b"n,,n=alice,r=x")
    with pytest.raises(AuthenticationFailed):
        step(server, final)


def test_a_credential_is_that_of_one_password() -> None:
    kept = credential("SCRAM-SHA-512", "secret")
    assert is_password("SCRAM-SHA-512", kept, "secret")
    assert not is_password("SCRAM-SHA-512", kept, "Secret")
    assert "stored_key" not in repr(kept)


def plain_server() -> Exchange:
    return begin(plain(lambda user, password: is_password_of(PASSWORDS, user, password)))


def test_plain() -> None:
    assert step(plain_server(), b"\0alice\0secret") == Authenticated("alice")
    assert step(plain_server(), b"alice\0alice\0secret") == Authenticated("alice")


@pytest.mark.parametrize(
    "token", [b"\0alice\0wrong", b"\0carol\0secret", b"\0alice\0", b"\0\0secret", b"\0carol\0wrong"]
)
def test_every_refusal_of_plain_is_the_same(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match=r"^authentication failed: the user or the password is wrong$"):
        step(plain_server(), token)


@pytest.mark.parametrize("token", [b"", b"alice\0secret", b"\0alice\0secret\0", b"\0\xff\0x", b"bob\0alice\0secret"])
def test_tokens_of_plain_that_are_none(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        step(plain_server(), token)


def bearer_server() -> Exchange:
    def validate(token: str) -> TokenClaims:
        if token != "good.token-1_=":
            raise InvalidToken("the token has expired")
        return TokenClaims("alice", 5_000)

    return begin(oauthbearer(validate))


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer good.token-1_=\x01\x01",
        b"n,a=alice,\x01host=h\x01auth=Bearer good.token-1_=\x01port=1\x01\x01",
        b"n,,\x01auth=bearer  good.token-1_=\x01traceId=1\x01\x01",
    ],
)
def test_oauthbearer(message: bytes) -> None:
    assert step(bearer_server(), message) == Authenticated("alice", expires_ms=5_000)


def test_a_token_that_is_refused_has_an_error_to_acknowledge() -> None:
    """RFC 7628, 3.2.3."""
    server = bearer_server()
    assert step(server, b"n,,\x01auth=Bearer old\x01\x01") == b'{"status":"invalid_token"}'
    with pytest.raises(AuthenticationFailed, match="the token has expired"):
        step(server, b"\x01")


@pytest.mark.parametrize(
    "message", [b"", b"n,,\x01auth=Basic x\x01\x01", b"n,,\x01\x01", b"n,a=bob,\x01auth=Bearer good.token-1_=\x01\x01"]
)
def test_messages_of_oauthbearer_that_are_none(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        step(bearer_server(), message)


@given(
    st.lists(
        st.binary(max_size=200) | st.text(alphabet="nyac=,rp\x01\0abcBearerauth ", max_size=60).map(str.encode),
        max_size=4,
    )
)
def test_any_bytes_are_refused_or_answered(tokens: list[bytes]) -> None:
    """Nothing but the failure of a login comes of them."""
    for server in (scram_server("SCRAM-SHA-256"), plain_server(), bearer_server()):
        try:
            for token in tokens:
                assert isinstance(step(server, token), bytes)
        except AuthenticationFailed:
            pass


def test_a_login_module_as_kafka_writes_it() -> None:
    text = r"""org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password="a \"quoted\" one"
        user_admin="a \"quoted\" one" user_alice=secret;"""
    assert jaas_options(text)["password"] == 'a "quoted" one'
    assert users_of(text) == {"admin": 'a "quoted" one', "alice": "secret"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Module",
        "Module required",
        "Module required a=1",
        "Module required a;",
        'Module required a="1;',
        "M r a=1; M r a=2;",
    ],
)
def test_a_configuration_that_is_none_is_not_repeated(text: str) -> None:
    with pytest.raises(BadJaas) as error:
        jaas_options(text)
    assert "sasl.jaas.config" in str(error.value)


def test_the_client_refuses_a_server_that_does_not_know_the_password() -> None:
    """The other direction of SCRAM's proof."""
    server, client = scram_server("SCRAM-SHA-256"), client_scram("SCRAM-SHA-256", "alice", "secret", "n")
    first = step(server, next(client))
    assert isinstance(first, bytes)
    client.send(first)
    with pytest.raises(KafkaError):
        client.send(b"v=" + base64.b64encode(b"x" * 32))
