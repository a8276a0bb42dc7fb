"""A whole broker in this process: its own thread and loop, a real socket on loopback, everything in memory.

All methods may be called from any thread, also from inside a running event loop: they wait for the broker's thread,
never for the caller's own loop. Waiters look at the group's state and say in their error where it stands and whom it
waits for; in an async test they go to a thread, so that the test's own consumers go on:
``await asyncio.to_thread(broker.until_stable, "g")``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.authorizer.acls import Acl
from coterie.broker.broker import Broker
from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.tables.broker_table import KAFKA_AUTHORIZERS
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError, check
from coterie.client.producer.partitions import checked_partition, partition_for_key
from coterie.client.security import PLAINTEXT
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.replay import AnyGroup
from coterie.records.encoding import encode_batch
from coterie.testing.argument_checks import checked_arguments
from coterie.testing.cluster_brokers import ClusterBrokers
from coterie.testing.cluster_controls import ClusterControls
from coterie.testing.fault_controls import FaultControls
from coterie.testing.faults import Faults
from coterie.testing.group_controls import GroupControls
from coterie.testing.loop_thread import START_S, WAIT_S, LoopThread
from coterie.testing.security.access_controls import AccessControls
from coterie.testing.security.local_security import OWN_USER, LocalSecurity
from coterie.text.addresses import format_address, parse_address
from coterie.text.quantity import quantity
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

__tracebackhide__ = True  # for pytest: a failure is shown where the test called

PRODUCE_VERSION = 12
LEADERS_TRIED = 10  # by `produce`, of a partition whose leader moves
CLIENT_ID = "coterie-testing"  # of the requests of `LocalBroker`
PEER_PREFIXES = ("broker-", "controller-")  # client ids of connections between brokers
DEFAULTS: dict[str, object] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "offsets.topic.num.partitions": "1",
    "num.partitions": "3",
    # Of consumer groups (KIP-848): members have the next step within 0.1 s, where Kafka's default is 5 s.
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "1",
    "group.consumer.min.session.timeout.ms": "1",
    "group.consumer.assignment.interval.ms": "0",
}


@checked_arguments
class LocalBroker(LoopThread, GroupControls, ClusterControls, FaultControls, AccessControls):
    """``settings`` by Kafka's names, over those above. Use as a context manager, or `start` and `stop`. ``brokers``: with
    more than one they are a cluster with replicas and a controller, with the ids 1, 2, ... and, where given, ``racks`` in
    that order; the methods of a cluster raise ValueError for a broker alone. ``listen``: HOST:PORT of a broker alone, where
    0 is a free port. ``sasl``: the passwords of users, who log in by PLAIN or SCRAM; ``tls``: with a certificate made on
    the spot; `client_settings` has what a client needs for both; the brokers of a cluster reach each other so too.
    ``acls``: entries that `coterie.testing.allow` makes; with them, also with none, the users of ``sasl`` may do what the
    entries allow."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        brokers: int = 1,
        racks: Sequence[str] = (),
        listen: str = "127.0.0.1:0",
        sasl: Mapping[str, str] | None = None,
        tls: bool = False,
        acls: Sequence[Acl] | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"brokers must be at least 1, not {brokers}")
        if racks and len(racks) != brokers:
            raise ValueError(f"racks must name one for each of {quantity(brokers, 'broker')}, not {len(racks)}")
        if brokers > 1 and listen != "127.0.0.1:0":
            raise ValueError("listen is the address of a broker alone; those of a cluster have free ports of 127.0.0.1")
        if acls is not None and sasl is None:
            raise ValueError("acls needs sasl, the passwords of the users whom the entries are about")
        super().__init__("broker")
        host, self.port = parse_address(listen)
        self.host = host or "127.0.0.1"
        self.faults = Faults()
        self.journal: list[JournalLine] = []
        self._settings = DEFAULTS | dict(settings or {})
        self._security = LocalSecurity(sasl, tls=tls) if tls or sasl is not None else None
        if self._security is not None:
            own = self._security.settings(self.host, self.port)
            if brokers > 1:
                own |= self._security.between_brokers()
            super_users = f"{self._settings.get('super.users') or ''};User:{OWN_USER}".lstrip(";")
            self._settings = own | self._settings | {"super.users": super_users}
        self._acls = list(acls or ())
        if acls is not None:
            self._settings = {"authorizer.class.name": KAFKA_AUTHORIZERS[0]} | self._settings
        self._epoch = 0
        self._number, self._racks = brokers, racks
        self._cluster: ClusterBrokers | None = None
        self._ports: dict[int, int] = {}  # of a cluster's brokers by id, from the first start on

    def start(self) -> LocalBroker:
        """Starts the broker, or all; returns itself once they accept connections."""
        self._begin()
        self.host, self.port = self._on_loop(self._start(), START_S)
        return self

    async def _start(self) -> tuple[str, int]:
        if self._number > 1:
            self._cluster = ClusterBrokers(
                self._settings, self._number, self._racks, self.faults, [self.journal.append]
            )
            for broker_id, port in self._ports.items():
                self._cluster.brokers[broker_id].port = port
            await self._cluster.start()
            if self._security is not None:
                await self._cluster.add_users(self._security.credentials())
            if self._acls:
                await self._cluster.alter_acls(self._acls)
            self._ports = {broker_id: one.port for broker_id, one in self._cluster.brokers.items()}
            first = self._cluster.brokers[1]
            return first.host, first.port
        self.broker = Broker(BrokerSettings(self._settings))
        self.broker.handlers = self.faults.wrap(self.broker.handlers)
        start = self.broker.start() if "listeners" in self._settings else self.broker.start(self.host, self.port)
        address = await start
        if self._security is not None:
            for credential in self._security.credentials():
                finish(self.broker.clients.scram_credentials.altering([credential]))
        if self._acls and self.broker.clients.acls is not None:
            self.broker.clients.acls.alter(self._acls)
        self.broker.groups.journal.listeners.append(self.journal.append)
        return address

    def stop(self, broker_id: int | None = None) -> None:
        """Closes every connection and ends the broker's thread. With a ``broker_id``: a controlled shutdown of that broker of a
        cluster, whose partitions others lead first."""
        if broker_id is not None:
            self._on_loop(self._broker(broker_id).stop(), START_S)
            return
        self._on_loop(self.broker.stop() if self._cluster is None else self._cluster.stop(), START_S)
        self._end()
        if self._security is not None:
            self._security.close()

    def reset(self) -> None:
        """Empty as after `start`, on the same addresses: topics, groups, transactions, changed settings, faults and the journal
        are gone, connections are closed, and every broker of a cluster runs. A broker alone takes 1 ms, three take 30."""
        self._require_running()
        self.host, self.port = self._on_loop(self._reset(), START_S)

    async def _reset(self) -> tuple[str, int]:
        if self._cluster is not None:
            await self._cluster.stop()
        else:
            if "listeners" in self._settings:  # with the ports that they have
                self._settings["listeners"] = ",".join(
                    f"{one.name}://{format_address(*one.address)}" for one in self.broker.listeners
                )
            await self.broker.stop()
        self.faults.rules.clear()
        self.faults.requested.clear()
        self.journal.clear()
        self._epoch = 0
        return await self._start()

    def client_settings(self, user: str | None = None, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """What a client needs to connect, by Kafka's names: the address, and with ``sasl`` or ``tls`` the protocol, the file of
        the authority and the login of that user, or of the first. Raises LookupError for an unknown user."""
        address = {"bootstrap.servers": self.bootstrap_servers}
        return address if self._security is None else address | self._security.client(user, mechanism)

    def __enter__(self) -> LocalBroker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT, as every client takes it; those of all brokers with commas."""
        self._require_running()
        brokers = [self] if self._cluster is None else list(self._cluster.brokers.values())
        return ",".join(format_address(one.host, one.port) for one in brokers)

    # -- topics and records -------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Creates a topic, and returns once every broker knows it. Raises KafkaError."""
        items = [CreatableTopicConfig(k, v) for k, v in (configs or {}).items()]
        request = CreateTopicsRequest([CreatableTopic(name, partitions, -1, [], items)])
        for result in self._request(request, *self._controller_address()).topics:
            check(result.error_code, result.error_message)
            partitions = result.num_partitions
        if self._cluster is not None:
            cluster, count = self._cluster, partitions
            self._until(lambda: cluster.all_know(name, count), f"{name} is not known everywhere", lambda: "", WAIT_S)

    def produce(self, topic: str, *values: bytes, key: bytes | None = None, partition: int | None = None) -> None:
        """Appends these records to one partition: that given, else the key's, else 0; once, also where the partition's leader
        moves meanwhile. Raises KafkaError, TypeError for what is not bytes, ValueError without a value."""
        if not values:
            raise ValueError("produce needs at least one value")
        count = self._partition_count(topic)
        if partition is None:
            partition = 0 if key is None else partition_for_key(key, count)
        checked_partition(partition, topic, count)
        now_ms = self._now_ms()
        batch = encode_batch([(now_ms, key, value, ()) for value in values])
        request = ProduceRequest(
            None, -1, 30_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
        )
        for _ in range(1 if self._cluster is None else LEADERS_TRIED):
            (responded,) = self._request(request, *self._address(topic, partition)).responses
            code = responded.partition_responses[0].error_code
            if code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                break
        check(code, subject=f"{topic}-{partition}")

    def _now_ms(self) -> int:
        return int(time.time() * 1000)

    def _partition_count(self, name: str) -> int:
        """Raises KafkaError."""
        topics = self._call(lambda: [broker.topics.by_name.get(name) for broker in self._brokers()])
        topic = next((topic for topic in topics if topic is not None), None)  # one that has just started may know none
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}; create_topic makes it")
        return len(topic.partitions)

    def _request(self, request: Any, host: str, port: int) -> Any:
        security = PLAINTEXT if self._security is None else self._security.own()
        socket = BrokerSocket(host, port, CLIENT_ID, security=security)
        try:
            return socket.request(request, highest=PRODUCE_VERSION)
        finally:
            socket.close()

    def _end_offset(self, topic: str, partition: int) -> int:
        """-1 where there is no such partition, or no leader."""
        leader = self.broker if self._cluster is None else self._leading(topic, partition)
        known = None if leader is None else leader.topics.by_name.get(topic)
        if known is None or partition >= len(known.partitions):
            return -1
        return known.partitions[partition].log.end_offset

    def _leading(self, topic: str, partition: int) -> Broker | None:
        leader = None if self._cluster is None else self._cluster.leader(topic, partition)
        return None if leader is None else leader.broker

    # -- control of the protocol --------------------------------------------------------------------------------------

    def drop_connections(self, client_id: str | None = None) -> int:
        """Cuts every connection, or those of one client; returns how many."""

        def drop() -> int:
            every = [c for broker in self._brokers() for c in broker.connections]
            connections = [
                c for c in every if client_id in (None, c.client_id) and not c.client_id.startswith(PEER_PREFIXES)
            ]
            for connection in connections:
                connection.close()
            return len(connections)

        return self._call(drop)

    def move_coordinator(self, group: str) -> None:
        """As if another broker had taken the group over: waiting requests receive NOT_COORDINATOR, and clients look it up
        again; members and offsets are loaded from the log. In a cluster another broker does."""
        if self._cluster is not None:
            self._move_coordinator(group)
            return
        self._epoch += 1

        def move() -> None:
            self.broker.groups.ready()
            index = partition_for(group, len(self.broker.topics.offsets_topic().partitions))
            self.broker.groups.resign(index, 2 * self._epoch)
            asyncio.get_running_loop().call_soon(self.broker.groups.elect, index, 2 * self._epoch + 1)

        self._call(move)

    def jump(self, ms: int) -> None:
        """Moves the broker's clock on; sessions and timeouts that are over then, end now."""

        def jump() -> None:
            for broker in self._brokers():
                broker.clock.jump(ms)
                broker.groups.time_jumped()

        self._call(jump)

    def story(self) -> list[str]:
        """The journal of all groups so far, a line each."""
        lines: Iterable[JournalLine] = list(self.journal)
        first_ms = next(iter(self.journal)).time_ms if self.journal else 0
        return [
            f"{(line.time_ms - first_ms) / 1000:8.3f} s  {line.group} generation {line.generation}: {line.event}"
            f" ({line.state_from} -> {line.state_to})  {line.why()}".rstrip()
            for line in lines
        ]

    # -- one broker or several ----------------------------------------------------------------------------------------

    def _brokers(self) -> list[Broker]:
        """The running brokers."""
        return [self.broker] if self._cluster is None else [one.broker for one in self._cluster.live()]

    def _coordinating(self, group: str) -> Broker | None:
        if self._cluster is None:
            return self.broker
        coordinator = self._cluster.coordinator(group)
        return None if coordinator is None else coordinator.broker

    def _group(self, group_id: str) -> AnyGroup | None:
        """On the loop. None as well while its coordinator is moving in a cluster."""
        broker = self._coordinating(group_id)
        try:
            return None if broker is None else broker.groups.group(group_id)
        except Refusal:
            if self._cluster is None:
                raise
            return None

    def _controller_address(self) -> tuple[str, int]:
        self._require_running()
        if self._cluster is None:
            return self.host, self.port
        controller = self._until(self._cluster.controller, "there is no controller", lambda: "", WAIT_S)
        assert controller is not None, "no controller, and no time-out"
        return controller.host, controller.port

    def _address(self, topic: str, partition: int) -> tuple[str, int]:
        """The address of the leader."""
        if self._cluster is None:
            return self.host, self.port
        leader = self._cluster.brokers[self.leader_of(topic, partition)]
        return leader.host, leader.port
