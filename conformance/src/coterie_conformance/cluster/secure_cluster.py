"""A cluster of `coterie cluster start --secure` with Apache Kafka 2.6.3 as its fourth broker, over SASL_SSL.

What `--secure` does not make, and such a cluster needs: ZooKeeper with SASL, by which Kafka 2.6 logs in (coterie's brokers do
by digest), and both identities as its superusers, since neither owns the other's nodes; the credentials of brokers and
administrators in ZooKeeper; the keys as PKCS12.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from coterie.broker.settings import read_properties
from coterie.client.blocking import BlockingAdmin
from coterie.text.addresses import format_address
from coterie_conformance.cluster.command_cluster import LIMIT_S, start, stop, zookeeper_address
from coterie_conformance.cluster.mixed import HEAP, VERSION
from coterie_conformance.servers.kafka import CannotRun, KafkaBroker

KAFKA, COTERIE = 4, (1, 2, 3)
SETTINGS = {
    "inter.broker.protocol.version": "2.6",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "12000",
}
_STORES = "changeit"  # the password of stores in the judge's folder
_KAFKA_AT_ZOOKEEPER = "kafka", "zookeeper-secret"
_DIGEST_LOGIN = "org.apache.zookeeper.server.auth.DigestLoginModule required"


class SecureCluster:
    """Use `secure_cluster`. ``administrator``: settings of a client that may do everything, at coterie's brokers.
    ``kafka_address``: Kafka's listener of SASL_SSL. ``trust``: settings of Java's clients."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.folder, self.data = folder, data
        secrets = data / "secrets"
        self._of_brokers = read_properties((secrets / "broker.properties").read_text("latin-1"))
        self.administrator = read_properties((data / "client.properties").read_text("latin-1"))
        self._make_stores(secrets)
        own = {"broker.id": str(KAFKA), "zookeeper.connect": zookeeper_address(data)}
        options = (f"-Djava.security.auth.login.config={_login_file(folder, 'Client')}",)
        settings = SETTINGS | own | self._kafka_settings()
        self.kafka = KafkaBroker(VERSION, folder / "kafka", settings, heap=HEAP, options=options)
        self.kafka_address = format_address(*self.kafka.listen_also("SASL_SSL", {}))

    def _make_stores(self, secrets: Path) -> None:
        keys, trusted = self.folder / "keys.p12", self.folder / "trust.p12"
        exported = ["openssl", "pkcs12", "-export", "-in", str(secrets / "broker.pem"), "-out", str(keys)]
        _checked([*exported, "-passout", f"pass:{_STORES}"])
        imported = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(secrets / "ca.pem")]
        _checked([*imported, "-keystore", str(trusted), "-storetype", "PKCS12", "-storepass", _STORES])
        self.trust = {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(trusted),
            "ssl.truststore.password": _STORES,
        }
        self._keys = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(keys), "ssl.key.password": _STORES}
        self._keys["ssl.keystore.password"] = _STORES

    def _kafka_settings(self) -> dict[str, str]:
        """Those of coterie's brokers, but for what Kafka has otherwise."""
        kept = ("sasl.", "security.", "listener.", "super.users", "zookeeper.set.acl")
        return {name: value for name, value in self._of_brokers.items() if name.startswith(kept)} | {
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            **self.trust,
            **self._keys,
        }

    def add_users(self) -> None:
        """Brokers and administrators log in to Kafka by the credentials in ZooKeeper. Raises CannotRun."""
        of_brokers = next(value for name, value in self._of_brokers.items() if name.endswith("sasl.jaas.config"))
        for user, login in (("broker", of_brokers), ("admin", self.administrator["sasl.jaas.config"])):
            (password,) = re.findall(r'password="([^"]*)"', login)
            self.coterie("users", "add", user, typed=f"{password}\n")

    def coterie(self, *words: str, typed: str = "") -> str:
        """A command as the administrator; its output. Raises CannotRun."""
        own = ["--command-config", str(self.data / "client.properties")]
        return _checked([sys.executable, "-m", "coterie", *words, *own], typed)

    def replicas_in_sync(self, topic: str) -> dict[int, tuple[int | None, list[int]]]:
        """Partition -> its leader and ISR. Raises KafkaError."""
        with BlockingAdmin(self.administrator) as admin:
            partitions = admin.describe_topics([topic])[topic].partitions
        return {
            one.partition: (None if one.leader is None else one.leader.id, sorted(node.id for node in one.isr))
            for one in partitions
        }

    def logs(self) -> Mapping[str, str]:
        """Broker of coterie's -> its log."""
        return {f"broker {one}": (self.data / f"broker-{one}.log").read_text(errors="replace") for one in COTERIE}


def _login_file(folder: Path, section: str) -> Path:
    """Of Kafka's login to ZooKeeper, for the one or the other."""
    user, password = _KAFKA_AT_ZOOKEEPER
    who = f'user_{user}="{password}"' if section == "Server" else f'username="{user}" password="{password}"'
    file = folder / f"{section}.jaas"
    file.write_text(f"{section} {{ {_DIGEST_LOGIN} {who}; }};\n")
    return file


def _zookeeper_environment(folder: Path, data: Path) -> dict[str, str]:
    """Of a ZooKeeper with SASL, whose superusers are both identities."""
    of_brokers = read_properties((data / "secrets" / "broker.properties").read_text("latin-1"))
    digest = of_brokers["coterie.zookeeper.digest"]
    hashed = base64.b64encode(hashlib.sha1(digest.encode()).digest()).decode()  # ZooKeeper's form
    options = {
        "java.security.auth.login.config": _login_file(folder, "Server"),
        "zookeeper.superUser": _KAFKA_AT_ZOOKEEPER[0],
        "zookeeper.DigestAuthenticationProvider.superDigest": f"{digest.partition(':')[0]}:{hashed}",
        "zookeeper.authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    return {"JAVA_TOOL_OPTIONS": " ".join(f"-D{name}={value}" for name, value in options.items())}


def _checked(command: list[str], typed: str = "") -> str:
    """Raises CannotRun."""
    try:
        done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"{command[0]} cannot be run: {error}") from error
    if done.returncode:
        raise CannotRun(f"{' '.join(command[:6])} ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}")
    return done.stdout


@contextmanager
def secure_cluster(folder: Path) -> Iterator[SecureCluster]:
    """While its brokers of coterie's run; Kafka's is started by a check. Raises CannotRun."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "coterie"
    options = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    start(data, "--secure", "--port", "0", *options)
    stop(data)  # now the secrets are there
    start(data, environment=_zookeeper_environment(folder, data))
    try:
        cluster = SecureCluster(folder, data)
        cluster.add_users()
        try:
            yield cluster
        finally:
            cluster.kafka.stop()
    finally:
        stop(data)
