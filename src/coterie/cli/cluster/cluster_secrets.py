"""What makes a cluster of `coterie cluster` secure: certificates, users, and the files of settings that have passwords.

DIR/client.properties            an administrator's, for --command-config and Kafka's own tools
DIR/secrets/broker.properties    of every broker: TLS, its login to the others and to ZooKeeper, ACLs
DIR/secrets/users                the users of SCRAM by which brokers and administrators log in, salted
DIR/secrets/ca.pem, broker.pem   the authority that clients trust; the brokers' certificate and key

Only their owner can read them. They are made once; the address in client.properties follows the brokers.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from coterie.authentication.mechanisms import credential_of, salted
from coterie.authentication.sasl import MIN_ITERATIONS
from coterie.broker.clients.users_file import line_of
from coterie.broker.settings import read_properties
from coterie.broker.settings.tables.broker_table import KAFKA_AUTHORIZERS
from coterie.testing.security.certificates import AUTHORITY, KEYS, make_certificates, write_secret

PROTOCOL, MECHANISM = "SASL_SSL", "SCRAM-SHA-512"
BROKERS_USER, ADMINISTRATOR = "broker", "admin"
_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_ADDRESS = "bootstrap.servers"


class ClusterSecrets:
    """Of the cluster in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "secrets"
        self.client_properties = folder / "client.properties"
        self.broker_properties = self._folder / "broker.properties"

    def make(self) -> None:
        """Makes what is missing. Raises ExtraMissing, OSError."""
        if self.client_properties.exists():
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_certificates(self._folder, "coterie cluster start --secure")
        passwords = {user: secrets.token_urlsafe(24) for user in (BROKERS_USER, ADMINISTRATOR)}
        lines = [_users_line(user, password) for user, password in passwords.items()]
        write_secret(self._folder / "users", "".join(f"{line}\n" for line in lines).encode())
        login = f"listener.name.{PROTOCOL.lower()}.{MECHANISM.lower()}.sasl.jaas.config"
        of_brokers = {
            "security.inter.broker.protocol": PROTOCOL,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.enabled.mechanisms": MECHANISM,
            "coterie.sasl.users.file": str(self._folder / "users"),
            login: _login(BROKERS_USER, passwords[BROKERS_USER]),
            "ssl.keystore.location": str(self._folder / KEYS),
            "ssl.truststore.location": str(self._folder / AUTHORITY),
            "authorizer.class.name": KAFKA_AUTHORIZERS[1],
            "super.users": f"User:{BROKERS_USER};User:{ADMINISTRATOR}",
            "zookeeper.set.acl": "true",
            "coterie.zookeeper.digest": f"{BROKERS_USER}:{secrets.token_urlsafe(24)}",
        }
        _write(self.broker_properties, of_brokers)
        of_administrators = {
            "security.protocol": PROTOCOL,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._folder / AUTHORITY),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": _login(ADMINISTRATOR, passwords[ADMINISTRATOR]),
        }
        _write(self.client_properties, of_administrators)

    def client_settings(self) -> dict[str, str]:
        """Of an administrator, without the address. Raises OSError."""
        settings = read_properties(self.client_properties.read_text("latin-1"))
        return {name: value for name, value in settings.items() if name != _ADDRESS}

    def addressed(self, bootstrap_servers: str) -> None:
        """Writes the address into client.properties. Raises OSError."""
        _write(self.client_properties, {_ADDRESS: bootstrap_servers} | self.client_settings())


def _users_line(user: str, password: str) -> str:
    salt = secrets.token_bytes(16)
    derived = salted(MECHANISM, password, salt, MIN_ITERATIONS)
    return line_of(user, MECHANISM, credential_of(MECHANISM, derived, salt, MIN_ITERATIONS))


def _login(user: str, password: str) -> str:
    return f'{_LOGIN_MODULE} required username="{user}" password="{password}";'


def _write(path: Path, settings: dict[str, str]) -> None:
    write_secret(path, "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items()).encode("latin-1"))


def _escaped(value: str) -> str:
    """As java.util.Properties reads it: a path may have a backslash, and characters beyond Latin-1."""
    return value.replace("\\", "\\\\").encode("latin-1", "backslashreplace").decode("latin-1").replace("\\x", "\\u00")
