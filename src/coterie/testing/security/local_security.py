"""TLS and SASL of a `LocalBroker`: certificates made on the spot by trustme (extra `testing`), users with their passwords, and
the settings by which a client connects."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path

from coterie.authentication.mechanisms import salted
from coterie.authentication.sasl import HASHES, MIN_ITERATIONS, ScramMechanism
from coterie.broker.clients.scram_credentials import Credential
from coterie.client.security import Security
from coterie.testing.security.certificates import AUTHORITY, KEYS, make_certificates

OWN_USER = "coterie-testing"  # of the requests of `LocalBroker`
_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class LocalSecurity:
    """``users``: their passwords; None without SASL. A failed login has its response at once."""

    def __init__(self, users: Mapping[str, str] | None, *, tls: bool) -> None:
        self._users = None if users is None else {**users, OWN_USER: secrets.token_hex(16)}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.authority: Path | None = None  # the PEM file that clients trust
        self._keys = ""
        if tls:
            self._make_certificates()
        self.protocol = ("SASL_" if users is not None else "") + ("SSL" if tls else "PLAINTEXT")

    def _make_certificates(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="coterie-tls-")
        folder = Path(self._folder.name)
        make_certificates(folder, "LocalBroker with tls=True")
        self.authority, self._keys = folder / AUTHORITY, str(folder / KEYS)

    def settings(self, host: str, port: int) -> dict[str, object]:
        """Of the broker."""
        settings: dict[str, object] = {"listeners": f"{self.protocol}://{host}:{port}"}
        if self._keys:
            settings["ssl.keystore.location"] = self._keys
        if self._users is not None:
            settings |= {
                "sasl.enabled.mechanisms": ",".join(("PLAIN", *HASHES)),
                "sasl.jaas.config": _login_module(self._users),
                "connection.failed.authentication.delay.ms": 0,
            }
        return settings

    def between_brokers(self) -> dict[str, object]:
        """Further settings of each broker of a cluster."""
        settings: dict[str, object] = {"security.inter.broker.protocol": self.protocol}
        if self.authority is not None:
            settings["ssl.truststore.location"] = str(self.authority)
        if self._users is not None:
            settings["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
        return settings

    def credentials(self) -> list[Credential]:
        """Of SCRAM, of each user."""
        credentials = []
        for user, password in (self._users or {}).items():
            for mechanism in ScramMechanism:
                salt = secrets.token_bytes(16)
                derived = salted(mechanism.sasl_name, password, salt, MIN_ITERATIONS)
                credentials.append(Credential(user, mechanism, MIN_ITERATIONS, salt, derived))
        return credentials

    def client(self, user: str | None, mechanism: str) -> dict[str, str]:
        """The settings of a client, without its address. Raises LookupError for an unknown user."""
        settings = {"security.protocol": self.protocol}
        if self.authority is not None:
            settings["ssl.truststore.location"] = str(self.authority)
        if self._users is not None:
            if user is None:
                user = next(iter(self._users))
            if user not in self._users:
                raise LookupError(
                    f"there is no user {user}; sasl= has {', '.join(u for u in self._users if u != OWN_USER)}"
                )
            settings |= {
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": self._users[user],
            }
        return settings

    def own(self) -> Security:
        """For the requests of `LocalBroker` itself."""
        authority = None if self.authority is None else str(self.authority)
        password = None if self._users is None else self._users[OWN_USER]
        return Security(self.protocol, authority, mechanism="PLAIN", username=OWN_USER, password=password)

    def close(self) -> None:
        """Deletes the certificates."""
        if self._folder is not None:
            self._folder.cleanup()


def _login_module(users: Mapping[str, str]) -> str:
    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    # The first two are those by which the brokers of a cluster log in to each other.
    named = {"username": OWN_USER, "password": users[OWN_USER]} | {f"user_{user}": users[user] for user in users}
    options = " ".join(f"{quoted(name)}={quoted(text)}" for name, text in named.items())
    return f"{_LOGIN_MODULE} required {options};"
