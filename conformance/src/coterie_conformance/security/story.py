"""Each client logs in by each mechanism over SASL_SSL, with the password and with another one, and meets certificates that it
cannot trust: it reports its own error, and the broker's log has a line for it without any secret."""

from __future__ import annotations

import datetime
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jwt
import trustme
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from coterie.authentication.mechanisms import credential_of, salted
from coterie.authentication.sasl import HASHES, MIN_ITERATIONS
from coterie.broker.clients.users_file import line_of
from coterie.client.blocking import BlockingAdmin
from coterie.testing import LocalBroker
from coterie_conformance.security import clients

KEY_ID, KEY_BITS = "the-key", 2048
LIFETIME_S = 3600
WITH_PASSWORD = ("PLAIN", *HASHES)
MECHANISMS = (*WITH_PASSWORD, clients.BEARER)
LINE_WITHIN_S = 5.0
PASSWORD, WRONG = "the-secret", "another-word"
DENIALS = ("topic", "group", "transaction")
# client -> its errors of a login, of a certificate, and of what it is denied, of which each is a part
OWN_ERRORS = {
    "java": (
        *("SaslAuthenticationException", "SslAuthenticationException"),
        *("TopicAuthorizationException", "GroupAuthorizationException", "TransactionalIdAuthorizationException"),
    ),
    "spark": (  # which has no transactions
        *("SaslAuthenticationException", "SslAuthenticationException"),
        *("TopicAuthorizationException", "GroupAuthorizationException"),
    ),
    "librdkafka": (
        *("_AUTHENTICATION", "_SSL"),
        *("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ),
    "aiokafka": (
        *("KafkaConnectionError", "KafkaConnectionError"),
        *("TopicAuthorizationFailedError", "GroupAuthorizationFailedError", "TransactionalIdAuthorizationFailed"),
    ),
    "kafkajs": (
        *("KafkaJSSASLAuthenticationError", "certificate"),
        *("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ),
    "franz-go": (
        *("SASL_AUTHENTICATION_FAILED", "CertificateVerificationError"),
        *("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ),
    "sarama": (
        *("SASL Authentication failed", "CertificateVerificationError"),
        *(
            "not authorized to access this topic",
            "not authorized to access this group",
            "Transactional ID authorization failed",
        ),
    ),
}
# Of a certificate of the client's that the broker refuses, which in TLS 1.3 is after the client's handshake.
OWN_CERTIFICATE_ERRORS = {
    "java": "SslAuthenticationException",
    "spark": "SslAuthenticationException",
    "librdkafka": "_TRANSPORT",
    "aiokafka": "KafkaConnectionError",
    "kafkajs": "certificate",
    "franz-go": "tls: ",
    "sarama": "tls: ",
}
# Of a bearer's token: Kafka and coterie send the error as a challenge of SASL. kafkajs takes that for the end of the login and
# sends its first request, at which the broker closes the connection; franz-go ends the login itself.
BEARER_ERRORS = {"kafkajs": "KafkaJSConnectionClosedError", "franz-go": "unexpected data in oauth response"}


class BearerTokens:
    """Each token is of alice. ``settings``: the broker's, by which it checks them."""

    def __init__(self, folder: Path) -> None:
        self._key, self._other = (generate_private_key(65_537, KEY_BITS) for _ in range(2))
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        keys = folder / "jwks.json"
        keys.write_text(json.dumps({"keys": [public | {"kid": KEY_ID, "alg": "RS256", "use": "sig"}]}))
        self.settings = {
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "coterie.sasl.oauthbearer.allowed.urls": keys.as_uri(),
        }

    def valid(self) -> str:
        """By the key of the JWKS."""
        return self._token(self._key, LIFETIME_S)

    def of_another_key(self) -> str:
        """It names the key of the JWKS."""
        return self._token(self._other, LIFETIME_S)

    def expired(self) -> str:
        """By the key of the JWKS; its end is further back than clocks may differ."""
        return self._token(self._key, -LIFETIME_S)

    def _token(self, key: RSAPrivateKey, lifetime_s: int) -> str:
        end_s = int(time.time()) + lifetime_s
        claims = {"sub": "alice", "iat": end_s - 2 * LIFETIME_S, "exp": end_s}
        return jwt.encode(claims, key, "RS256", {"kid": KEY_ID})


@dataclass(frozen=True, slots=True)
class LoginCheck:
    """One attempt. ``wrong``: what was not as it must be; empty where all was."""

    client: str
    case: str
    wrong: str


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Counts of further lines come a second late: a client that was refused goes on in its own threads."""
        if "more lines within a second" not in record.getMessage():
            self.lines.append(record.getMessage())


@contextmanager
def broker_log() -> Iterator[_Lines]:
    """The warnings of the brokers meanwhile."""
    lines, logger = _Lines(), logging.getLogger("coterie.broker")
    logger.addHandler(lines)
    try:
        yield lines
    finally:
        logger.removeHandler(lines)


class LoginFiles:
    """Certificates, one of them expired, a file with one user, and tokens of it."""

    def __init__(self, folder: Path) -> None:
        authority, other = trustme.CA(), trustme.CA()
        self.ca, self.broker, self.expired, self.other, self.users, self.client, self.expired_client = (
            folder / name
            for name in (
                "ca.pem",
                "broker.pem",
                "expired.pem",
                "other.pem",
                "users",
                "client.pem",
                "expired-client.pem",
            )
        )
        authority.cert_pem.write_to_path(self.ca)
        other.cert_pem.write_to_path(self.other)
        authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(self.broker)
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        past = authority.issue_cert("localhost", "127.0.0.1", not_before=now - 3 * day, not_after=now - day)
        past.private_key_and_cert_chain_pem.write_to_path(self.expired)
        write_for_java(authority.issue_cert("alice"), self.client)
        write_for_java(
            authority.issue_cert("alice", not_before=now - 3 * day, not_after=now - day), self.expired_client
        )
        self.tokens = BearerTokens(folder)
        lines = []
        for mechanism in HASHES:
            salt = secrets.token_bytes(16)
            derived = salted(mechanism, PASSWORD, salt, MIN_ITERATIONS)
            lines.append(line_of("alice", mechanism, credential_of(mechanism, derived, salt, MIN_ITERATIONS)))
        with open(os.open(self.users, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write("\n".join(lines))


def write_for_java(issued: trustme.LeafCert, path: Path) -> None:
    """Java reads keys of PKCS8 alone."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(pem + b"".join(each.bytes() for each in issued.cert_chain_pems))


def check_logins(version: str, folder: Path, report: Callable[[LoginCheck], None]) -> list[LoginCheck]:
    """Java's client is that of the version. Raises CannotRun."""
    folder.mkdir(parents=True, exist_ok=True)
    files, checks = LoginFiles(folder), list[LoginCheck]()
    with clients.spark_connector(folder) as connector:
        attempts: dict[str, clients.Attempt] = {
            "java": clients.java(version, folder),
            "spark": connector,
            "librdkafka": clients.librdkafka,
            "aiokafka": clients.aiokafka,
            "kafkajs": clients.kafkajs(),
            "franz-go": clients.franz_go(),
            "sarama": clients.sarama(),
        }
        for client, attempt in attempts.items():
            for check in logins_of(files, client, attempt):
                checks.append(check)
                report(check)
    return checks


def logins_of(files: LoginFiles, client: str, attempt: clients.Attempt) -> Iterator[LoginCheck]:
    """Each client has brokers of its own: one that was refused may go on for a while in its own threads."""
    login_error, tls_error, *denials = OWN_ERRORS[client]
    with sasl_broker(files, files.broker) as broker, broker_log() as log:
        create_words(settings_of(files, broker, "PLAIN"))
        for mechanism in MECHANISMS:
            settings = settings_of(files, broker, mechanism)
            yield checked(client, mechanism, attempt(settings), "", log, "")
        line = "is refused ("
        for mechanism in WITH_PASSWORD:
            wrong = settings_of(files, broker, mechanism) | {"sasl.password": WRONG}
            yield checked(client, f"{mechanism}, wrong password", attempt(wrong), login_error, log, line)
        bearer, error = settings_of(files, broker, clients.BEARER), BEARER_ERRORS.get(client, login_error)
        for case, token in (("of another key", files.tokens.of_another_key()), ("expired", files.tokens.expired())):
            reported = attempt(bearer | {"sasl.token": token})
            yield checked(client, f"{clients.BEARER}, token {case}", reported, error, log, line)
    with (
        sasl_broker(files, files.broker) as broker,
        broker_log() as log,
        broker.deny("WRITE", topic="denied"),
        broker.deny("READ", group="denied"),
        broker.deny("WRITE", transactional_id="denied"),
    ):
        create_words(settings_of(files, broker, "PLAIN"))
        for call, error in zip(DENIALS, denials, strict=False):
            settings = settings_of(files, broker, "SCRAM-SHA-512") | {"call": call}
            yield checked(client, f"denied {call}", attempt(settings), error, log, "an ACL denies it")
    for case, keys, authority in (
        ("unknown authority", files.broker, files.other),
        ("expired", files.expired, files.ca),
    ):
        with sasl_broker(files, keys) as broker, broker_log() as log:
            settings = settings_of(files, broker, "PLAIN") | {"ssl.truststore.location": str(authority)}
            yield checked(client, f"certificate: {case}", attempt(settings), tls_error, log, "its TLS failed")
    for case, own, error in (
        ("its own", files.client, ""),
        ("none of its own", None, OWN_CERTIFICATE_ERRORS[client]),
        ("its own, expired", files.expired_client, OWN_CERTIFICATE_ERRORS[client]),
    ):
        with _mutual(files) as broker, broker_log() as log:
            settings = settings_of(files, broker, "PLAIN") | {"security.protocol": "SSL"}
            create_words(settings | {"ssl.keystore.location": str(files.client)})
            settings |= {"ssl.keystore.location": str(own)} if own else {}
            line = "its TLS failed" if error else ""
            yield checked(client, f"mutual TLS, certificate: {case}", attempt(settings), error, log, line)


def sasl_broker(files: LoginFiles, keys: Path, further: Mapping[str, str] | None = None) -> LocalBroker:
    """With TLS, SASL and the user alice; ``further`` settings."""
    return LocalBroker(
        {
            "listeners": "SASL_SSL://127.0.0.1:0",
            "ssl.keystore.location": str(keys),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "coterie.sasl.users.file": str(files.users),
            **files.tokens.settings,
            **(further or {}),
        }
    )


def create_words(settings: clients.Settings) -> None:
    """The topic that Spark's connector reads, which it would not create."""
    with BlockingAdmin({name: value for name, value in settings.items() if name != "call"}) as admin:
        admin.create_topic("words")


def _mutual(files: LoginFiles) -> LocalBroker:
    return LocalBroker(
        {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.client.auth": "required",
            "ssl.keystore.location": str(files.broker),
            "ssl.truststore.location": str(files.ca),
        }
    )


def settings_of(files: LoginFiles, broker: LocalBroker, mechanism: str) -> dict[str, str]:
    """Of alice as a client."""
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(files.ca),
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
        "call": "list",
    }
    return settings | ({"sasl.token": files.tokens.valid()} if mechanism == clients.BEARER else {})


def checked(client: str, case: str, error: str, expected: str, log: _Lines, line: str) -> LoginCheck:
    """Each attempt may connect more than once, and each connection has one line, which may come after the client's error."""
    limit_s = time.monotonic() + LINE_WITHIN_S
    while line and not log.lines and time.monotonic() < limit_s:
        time.sleep(0.01)
    lines, log.lines = log.lines, []
    if "TLS" not in line:  # Java's admin client closes a second connection whenever it is done, also within a handshake
        lines = [each for each in lines if "the client ended the handshake" not in each]
    wrong = ""
    if (not error if expected else error) or expected not in error:
        wrong = f"the client reports {error or 'nothing'}, not {expected or 'nothing'}"
    elif not all(line and line in one for one in lines) or bool(lines) != bool(line):
        wrong = f"the broker's log has {lines}"
    elif any(secret in one.replace("User:alice from", "") for one in lines for secret in (PASSWORD, WRONG, "alice")):
        wrong = "the broker's log has a secret or the user"
    return LoginCheck(client, case, wrong)
