"""Heartbeats of a user with ACLs, without TLS and over SASL_SSL, on coterie and on Apache Kafka with the same settings: how
many a second of the broker's processor time serves, which other work disturbs less than a rate."""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import trustme

from coterie.authorizer.acls import Acl, AclOperation, AclResourceType, PatternType, Permission
from coterie.certify.settling import wait_for_coordinator
from coterie.client.blocking import BlockingAdmin
from coterie.client.connection.handshake import Handshake
from coterie.client.security import Security
from coterie.text.addresses import format_address
from coterie.wire.framing import encode_request
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie_conformance.bench.beside import (
    BROKER_CORE,
    CONNECTIONS,
    DRIVER_CORE,
    KAFKA,
    KAFKA_SETTINGS,
    WARM_UP_S,
    Address,
    bind,
    bound,
)
from coterie_conformance.bench.loads import load
from coterie_conformance.bench.measurement import SECONDS, Measurement, broker, cpu_seconds
from coterie_conformance.security.story import write_for_java
from coterie_conformance.servers.kafka import KafkaBroker, free_port

USER, PASSWORD = "alice", "alices-secret"
KINDS = {"PLAINTEXT": "", "SASL_PLAINTEXT": " with ACLs", "SASL_SSL": " with ACLs over SASL_SSL"}
Served = tuple[Mapping[str, Address], int]  # by the name of the listener, and the process
ROUNDS = 3
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Secured:
    """What both brokers are given: a certificate, a user, an authorizer; who comes without a login may do everything."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        authority, keys = trustme.CA(), folder / "broker.pem"
        self.authority = folder / "ca.pem"
        authority.cert_pem.write_to_path(self.authority)
        write_for_java(authority.issue_cert("localhost", "127.0.0.1"), keys)
        self.settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keys),
            "sasl.enabled.mechanisms": "PLAIN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "max.connections": "20000",
        }
        for name in ("sasl_plaintext", "sasl_ssl"):
            jaas = f'{_MODULE} required user_{USER}="{PASSWORD}";'
            self.settings[f"listener.name.{name}.plain.sasl.jaas.config"] = jaas

    def security(self, protocol: str) -> Security:
        """Of the user as a client."""
        return Security(protocol, str(self.authority), mechanism="PLAIN", username=USER, password=PASSWORD)


@contextmanager
def _coterie(folder: Path, secured: Secured) -> Iterator[Served]:
    listeners = {name: ("127.0.0.1", free_port()) for name in KINDS}
    own = {"listeners": ",".join(f"{name}://{format_address(*address)}" for name, address in listeners.items())}
    properties = folder.with_suffix(".properties")
    properties.write_text("".join(f"{name}={value}\n" for name, value in (secured.settings | own).items()))
    with broker(folder, properties=properties) as (_, process):
        bind(BROKER_CORE, process.pid)
        yield listeners, process.pid


@contextmanager
def _kafka(folder: Path, secured: Secured) -> Iterator[Served]:
    """Raises CannotRun."""
    protocols = ",".join(f"{name}:{name}" for name in KINDS)
    own = {"listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT"}
    settings = KAFKA_SETTINGS | secured.settings | own | {"group.initial.rebalance.delay.ms": "0"}
    kafka = KafkaBroker(KAFKA, folder, settings, {BROKER_CORE})
    listeners = {"PLAINTEXT": kafka.address}
    listeners |= {name: kafka.listen_also(name, {}) for name in KINDS if name not in listeners}
    try:
        kafka.start()
        wait_for_coordinator(kafka.address)
        yield listeners, kafka.pid
    finally:
        kafka.stop()


def _settled(secured: Secured, served: Served) -> list[str]:
    """The members that will send heartbeats, each in a group of its own, on a broker that is warm: in all kinds, since what is
    measured last would run the code that a JVM has compiled best."""
    listeners, pid = served
    plain = listeners["PLAINTEXT"]
    load.create_topic(plain)
    members = load.groups_of_one(plain, max(CONNECTIONS))
    entry = Acl(
        AclResourceType.GROUP, "g", PatternType.PREFIXED, f"User:{USER}", "*", AclOperation.READ, Permission.ALLOW
    )
    with BlockingAdmin({"bootstrap.servers": format_address(*plain)}) as admin:
        admin.create_acls([entry])
    for protocol in KINDS:
        _heartbeats(listeners[protocol], members[:100], secured.security(protocol), pid, WARM_UP_S)
    return members


def _rates(secured: Secured, sides: Sequence[Served]) -> Iterator[tuple[str, list[float]]]:
    """The name of each row, with the rates of the sides: medians of rounds in which they take turns, as other work of the
    machine comes and goes."""
    settled = [(served, _settled(secured, served)) for served in sides]
    for protocol, kind in KINDS.items():
        security = secured.security(protocol)
        for connections in CONNECTIONS:
            rounds = [
                [
                    _heartbeats(at[protocol], members[:connections], security, pid, SECONDS)
                    for (at, pid), members in settled
                ]
                for _ in range(ROUNDS)
            ]
            yield (
                f"heartbeats of a core{kind}, {connections} connections",
                [median(of_side) for of_side in zip(*rounds, strict=True)],
            )


def _heartbeats(address: Address, members: list[str], security: Security, pid: int, seconds: float) -> float:
    """Heartbeats in a second of the process's own time, each connection sending its next as soon as it has its response."""
    with selectors.DefaultSelector() as selector:
        for number, member in enumerate(members):
            opened = _opened(address, security)
            frame = encode_request(1, "bench", HeartbeatRequest(f"g{number}", 1, member), load.HEARTBEAT_VERSION)
            opened.setblocking(False)
            selector.register(opened, selectors.EVENT_READ, (opened, frame))
            opened.send(frame)
        _responded(selector)
        responses, ends_s, before_s = 0, time.perf_counter() + seconds, cpu_seconds(pid)
        while time.perf_counter() < ends_s:
            responses += _responded(selector)
        took_s = cpu_seconds(pid) - before_s
        for key in list(selector.get_map().values()):
            key.data[0].close()
    return responses / took_s


def _opened(address: Address, security: Security) -> socket.socket:
    """A connection whose TLS and login are done."""
    opened, context = socket.create_connection(address), security.context()
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is not None:
        opened = context.wrap_socket(opened, server_hostname=address[0])
    handshake = Handshake("bench", security.login())
    frame: bytes | None = handshake.start()
    while frame is not None:
        opened.sendall(frame)
        size = int.from_bytes(load.read_exactly(opened, 4), "big")
        frame = handshake.response(load.read_exactly(opened, size))
    return opened


def _responded(selector: selectors.BaseSelector) -> int:
    """Sends the next request of each connection that has its response, which is one record of TLS; returns how many had."""
    responses = 0
    for key, _ in selector.select(0.5):
        opened, frame = key.data
        try:
            data = opened.recv(65_536)
        except ssl.SSLWantReadError:
            continue
        if not data:
            raise ConnectionError("the broker closed a connection under load")
        opened.send(frame)
        responses += 1
    return responses


def beside_secured(folder: Path) -> Iterator[Measurement]:
    """Rows with Kafka's figure beside ours. Both brokers are up, on one core. Raises CannotRun."""
    secured = Secured(folder)
    with (
        bound(DRIVER_CORE),
        _kafka(folder / "kafka", secured) as kafka,
        _coterie(folder / "coterie", secured) as coterie,
    ):
        for name, (theirs, ours) in _rates(secured, (kafka, coterie)):
            yield Measurement(name, ours, "1/s", theirs, peer=f"Kafka {KAFKA}")
