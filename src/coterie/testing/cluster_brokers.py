"""Several brokers of one process on one ZooKeeper in memory, and what may happen to each: real sockets, logs in memory."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from coterie.authentication.sasl import ScramMechanism
from coterie.authorizer.acls import Acl
from coterie.broker.broker import Broker
from coterie.broker.clients.scram_credentials import Credential
from coterie.broker.cluster.access_nodes import AclNodes
from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.peers.connections import Dial, PeerStream, open_stream
from coterie.broker.cluster.peers.secured import peer_dial
from coterie.broker.cluster.settings import ClusterConfig, cluster_config
from coterie.broker.cluster.zookeeper.session import SessionEvents
from coterie.broker.handlers.services import Handler, Services
from coterie.broker.joining import join
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.listeners import PLAINTEXT
from coterie.broker.storage.topic import OFFSETS_TOPIC
from coterie.controller import nodes
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.partitioning import partition_for
from coterie.log.filesystem import MemoryFileSystem
from coterie.replication.states import PartitionState, TopicPartition
from coterie.testing.faults import Faults
from coterie.testing.in_process_zookeeper import InProcessSession, InProcessZooKeeper
from coterie.testing.security.acls_of_tests import alter_acls
from coterie.wire.declaration import Message
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Create, List, Operation, Read, Znode

SESSION_TIMEOUT_MS = 400
REPLICA_LAG_TIME_MAX_MS = 1_000
LOOK_EVERY_S = 0.001


class Interconnect:
    """The connections between brokers. ``cut``: pairs of brokers between which nothing passes."""

    def __init__(self) -> None:
        self.cut: set[frozenset[int]] = set()
        self.broker_ids: dict[int, int] = {}  # by port
        self._streams: dict[frozenset[int], list[PeerStream]] = {}

    async def dial(self, broker_id: int, host: str, port: int, dial: Dial = open_stream) -> PeerStream:
        """Connects from that broker, as ``dial`` does. Raises OSError."""
        pair = frozenset((broker_id, self.broker_ids[port]))
        if pair in self.cut:
            raise ConnectionRefusedError
        stream = await dial(host, port)
        if pair in self.cut:  # meanwhile
            stream.abort()
            raise ConnectionResetError
        self._streams.setdefault(pair, []).append(stream)
        return stream

    def separate(self, one: int, *others: int) -> None:
        """Cuts the connections between a broker and others, and lets them make none."""
        for other in others:
            pair = frozenset((one, other))
            self.cut.add(pair)
            for stream in self._streams.pop(pair, []):
                stream.abort()

    def join(self, broker_id: int) -> None:
        """All the connections of that broker pass again."""
        self.cut = {pair for pair in self.cut if broker_id not in pair}


class ClusteredBroker:
    """One of the brokers; its memory outlives its processes."""

    def __init__(self, cluster: ClusterBrokers, broker_id: int, rack: str | None) -> None:
        self._cluster, self.broker_id, self.rack = cluster, broker_id, rack
        self._memory = MemoryFileSystem()
        self._boot_id: str | None = None  # of a machine that can lose power
        self._session: InProcessSession | None = None
        self._held: list[Callable[[], None]] | None = None  # while it is paused
        self.host, self.port = "127.0.0.1", 0
        self.is_running = False
        self.broker: Broker

    async def start(self) -> None:
        """On the port that it had before, if any."""
        cluster, broker_id = self._cluster, self.broker_id
        own: dict[str, object] = {**cluster.settings, "node.id": str(broker_id)}
        protocol = own.get("security.inter.broker.protocol", PLAINTEXT)
        if protocol != PLAINTEXT:
            own["listeners"] = f"{protocol}://{self.host}:{self.port}"
        settings = BrokerSettings(own)
        view = ClusterView(broker_id, is_alone=False)
        self.broker = Broker(settings, cluster=view, memory=self._memory, boot_id=self._boot_id)
        self.broker.handlers = self._wrapped(self.broker.handlers)
        self.host, self.port = await self.broker.start(self.host, self.port)
        self.broker.groups.journal.listeners += cluster.listeners
        if cluster.denied:
            self.alter_acls(cluster.denied, [])
        cluster.interconnect.broker_ids[self.port] = broker_id
        self.is_running = True
        config, dial = cluster.config(broker_id, self.rack, settings), peer_dial(settings)
        if self._boot_id is not None:
            config = replace(config, lost_power=self.broker.topics.lost_power)
        await join(
            self.broker,
            (self.host, self.port),
            config,
            cluster.cluster_id,
            self._open_session,
            lambda host, port: cluster.interconnect.dial(broker_id, host, port, dial),
            self.broker.left_alone,
        )
        if self._boot_id is not None:
            self.broker.topics.boot_file.write()

    async def _open_session(self, events: SessionEvents) -> InProcessSession:
        self._session = await self._cluster.zookeeper.open_session(self._cluster.session_timeout_ms, events)
        return self._session

    async def stop(self) -> None:
        """A controlled shutdown: others lead first."""
        self.is_running = False
        await self.broker.stop()

    async def kill(self) -> None:
        """As SIGKILL: no response is sent, and ZooKeeper hears no more of it."""
        self.is_running = False
        member, self.broker.member = self.broker.member, None
        if self._session is not None:
            self._session.die()
        for connection in self.broker.connections:
            connection.abort()
        await asyncio.sleep(0)
        if member is not None:
            await member.abandon()
        self.broker.failure = OSError("killed")  # so that nothing is closed in order
        await self.broker.stop()

    def cut_off(self) -> None:
        """From the other brokers and from ZooKeeper; clients still reach it."""
        for other in self._cluster.brokers:
            if other != self.broker_id:
                self._cluster.interconnect.separate(self.broker_id, other)
        self.lose_zookeeper()

    @property
    def has_zookeeper(self) -> bool:
        """Whether it is registered and hears of changes."""
        return self.broker.member is not None and self.broker.member.driver.is_connected

    def lose_zookeeper(self) -> None:
        """Its session expires unless `reach_zookeeper` comes first."""
        if self._session is not None:
            self._session.cut_off()

    def reach_zookeeper(self) -> None:
        """Ends what `lose_zookeeper` began: with the old session, or with a new one."""
        if self._session is not None:
            self._session.heal()

    def heal(self) -> None:
        """Ends what `cut_off` began."""
        self._cluster.interconnect.join(self.broker_id)
        self.reach_zookeeper()

    def pause(self) -> None:
        """As SIGSTOP, as far as others see it: requests wait, nothing is sent, and ZooKeeper hears no more of it."""
        self._held = self._held or []
        self.cut_off()

    def resume(self) -> None:
        """Ends what `pause` began: what waited is handled now."""
        held, self._held = self._held or [], None
        self.heal()
        for handle in held:
            handle()

    def alter_acls(self, added: list[Acl], removed: list[Acl]) -> None:
        """Of a cluster without an authorizer."""
        alter_acls(self.broker, self._wrapped, added, removed)

    def _wrapped(self, handlers: dict[int, Handler]) -> dict[int, Handler]:
        return {key: self._pausable(handler) for key, handler in self._cluster.faults.wrap(handlers).items()}

    def _pausable(self, handler: Handler) -> Handler:
        def handle(broker: Services, request: Message, call: Call) -> Message | Pending | None:
            if self._held is None:
                return handler(broker, request, call)
            pending = Pending()
            # A Produce with acks=0 while the broker was paused: its connection is opened again.
            self._held.append(lambda: pending.respond_with(handler(broker, request, call)))
            return pending

        return handle


MakeBroker = Callable[["ClusterBrokers", int, str | None], ClusteredBroker]


class ClusterBrokers:
    """All in the running loop. ``settings`` are those of each broker, ``racks`` their racks in the order of their ids."""

    session_timeout_ms = SESSION_TIMEOUT_MS  # short, as those of `config`

    def __init__(
        self,
        settings: Mapping[str, object],
        brokers: int,
        racks: Sequence[str],
        faults: Faults,
        listeners: Iterable[Callable[[JournalLine], None]],
        make_broker: MakeBroker | None = None,
    ) -> None:
        factor = str(min(brokers, 3))
        self.settings = {
            "default.replication.factor": factor,
            "offsets.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            **settings,
        }
        self.faults, self.listeners = faults, list(listeners)
        self.denied: list[Acl] = []  # where there is no authorizer
        self.zookeeper, self.interconnect = InProcessZooKeeper(), Interconnect()
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        make_broker = make_broker or ClusteredBroker
        self.brokers = {
            number: make_broker(self, number, racks[number - 1] if racks else None) for number in range(1, brokers + 1)
        }

    def config(self, broker_id: int, rack: str | None, settings: BrokerSettings) -> ClusterConfig:
        """Timeouts that are not set are short, so that a test sees in a second what takes 30 in production."""
        config = cluster_config(settings)
        replication = replace(config.replication, replica_fetch_backoff_ms=50)
        if "replica.lag.time.max.ms" not in self.settings:
            replication = replace(replication, replica_lag_time_max_ms=REPLICA_LAG_TIME_MAX_MS)
        short = replace(config, replication=replication, controlled_shutdown_retry_backoff_ms=50)
        return replace(short, broker_id=broker_id, rack=rack)

    async def start(self) -> None:
        """Returns once each broker knows all of them."""
        for broker in self.brokers.values():
            await broker.start()
        await self.until(lambda: all(len(b.broker.cluster.live) == len(self.brokers) for b in self.live()))

    async def alter_acls(self, added: Collection[Acl], removed: Collection[Acl] = ()) -> None:
        """Returns once they are in force at each broker that ZooKeeper reaches. Where there is no authorizer, each broker has
        one from then on, which allows everything else."""
        if not self.settings.get("authorizer.class.name"):
            self.denied = [acl for acl in (*self.denied, *added) if acl not in removed]
            for broker in self.live():
                broker.alter_acls([*added], [*removed])
            return

        def in_force(one: ClusteredBroker) -> bool:
            assert one.broker.clients.acls is not None
            acls = set(one.broker.clients.acls.authorizer.acls)
            return acls.issuperset(added) and acls.isdisjoint(removed)

        await AclNodes(self._apply, lambda *_: None).alter(added, removed)
        await self.until(lambda: all(in_force(one) for one in self.live() if one.has_zookeeper))

    async def add_users(self, changes: Iterable[Credential]) -> None:
        """Returns once each broker knows their credentials of SCRAM."""
        first = self.live()[0].broker
        assert first.client_entities is not None, "it has joined"
        for change in changes:
            _, accepted = finish(first.clients.scram_credentials.checked([change]))
            for user, (_, kept) in accepted.items():
                await first.client_entities.alter_credential(user, ScramMechanism(change.mechanism), kept)
                await self.until(lambda user=user, change=change: self._has_user(user, change.mechanism))  # type: ignore[misc]

    def _has_user(self, user: str, mechanism: int) -> bool:
        known = [one.broker.clients.scram_credentials for one in self.live()]
        return all(mechanism in each.iterations(user) for each in known)

    async def _apply(self, operation: Operation) -> object:
        return self.zookeeper.apply(operation)

    async def stop(self) -> None:
        """All of them, at once."""
        for broker in self.live():
            await broker.kill()

    def live(self) -> list[ClusteredBroker]:
        """The running brokers, paused ones included."""
        return [broker for broker in self.brokers.values() if broker.is_running]

    async def until(self, done: Callable[[], object]) -> None:
        """Looks again and again; the caller bounds it."""
        while not done():
            await asyncio.sleep(LOOK_EVERY_S)

    # -- who leads ------------------------------------------------------------------------------------------------------

    def state(self, topic: str, partition: int) -> PartitionState | None:
        """As the brokers that are there know it: the newest epoch counts."""
        newest: PartitionState | None = None
        tp = topic, partition
        for one in self.brokers.values():
            state = one.broker.cluster.states.get(tp) if one.is_running else None
            if state is None or state is newest:
                continue
            if newest is None or (state.leader_epoch, state.version) > (newest.leader_epoch, newest.version):
                newest = state
        return newest

    def isrs(self) -> dict[TopicPartition, tuple[int, ...]]:
        """As ZooKeeper has them."""
        isrs: dict[TopicPartition, tuple[int, ...]] = {}
        for topic in self._children(paths.TOPICS):
            for partition in self._children(f"{paths.topic(topic)}/partitions"):
                node = self.zookeeper.apply(Read(paths.partition_state(topic, int(partition))))
                if isinstance(node, Znode):
                    isrs[topic, int(partition)] = nodes.state_of(node, ()).isr
        return isrs

    def _children(self, path: str) -> list[str]:
        children = self.zookeeper.apply(List(path))
        assert isinstance(children, list)
        return children

    def leader(self, topic: str, partition: int) -> ClusteredBroker | None:
        """The broker that leads the partition in the newest epoch, where it runs and knows it."""
        state = self.state(topic, partition)
        broker = None if state is None else self.brokers.get(state.leader)
        known = None if broker is None or not broker.is_running else broker.broker.topics.by_name.get(topic)
        return broker if known is not None and known.partitions[partition].is_led else None

    def controller(self) -> ClusteredBroker | None:
        """The broker that was elected and that all others know."""
        known = {b.broker.cluster.controller_id for b in self.live()}
        broker = self.brokers.get(known.pop()) if len(known) == 1 else None
        return broker if broker is not None and broker.is_running else None

    def all_know(self, topic: str, partitions: int) -> bool:
        """Whether each broker knows leaders of so many partitions of the topic."""
        views = [b.broker.cluster for b in self.live()]
        states = [view.states.get((topic, index)) for view in views for index in range(partitions)]
        return all(state is not None and state.leader in self.brokers for state in states)

    def coordinator(self, key: str, coordinators_topic: str = OFFSETS_TOPIC) -> ClusteredBroker | None:
        """The leader of the key's partition of `__consumer_offsets`, for a group, or of `__transaction_state`."""
        partition = self.partition_of(key, coordinators_topic)
        return None if partition is None else self.leader(coordinators_topic, partition)

    def partition_of(self, key: str, coordinators_topic: str = OFFSETS_TOPIC) -> int | None:
        """The number of the key's partition; None while no broker knows the topic."""
        for one in self.brokers.values():
            if one.is_running and (topic := one.broker.topics.by_name.get(coordinators_topic)) is not None:
                return partition_for(key, len(topic.partitions))
        return None

    def in_sync(self, topic: str, partition: int) -> set[int]:
        """The ISR as the partition's leader has it."""
        leader = self.leader(topic, partition)
        replica = None if leader is None else leader.broker.topics.partition(topic, partition).replica
        return set() if replica is None else set(replica.leading().state.isr)

    async def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """By a reassignment to the same replicas in another order, and the election of the preferred leader."""
        state = self.state(topic, partition)
        if state is None or broker_id not in state.replicas:
            raise ValueError(f"broker {broker_id} has no replica of {topic}-{partition}")
        order = [broker_id, *(replica for replica in state.replicas if replica != broker_id)]
        row: dict[str, object] = {"topic": topic, "partition": partition}
        await self._request("/admin/reassign_partitions", [{**row, "replicas": order}])
        await self._request("/admin/preferred_replica_election", [row])
        await self.until(lambda: (one := self.leader(topic, partition)) is not None and one.broker_id == broker_id)

    async def _request(self, path: str, rows: list[dict[str, object]]) -> None:
        """A node for the controller, which removes it when it is done."""
        self.zookeeper.apply(Create(path, json.dumps({"version": 1, "partitions": rows}), ephemeral=False))
        await self.until(lambda: self.zookeeper.apply(Read(path)) is None)

    async def shrink_isr(self, topic: str, partition: int, to: Iterable[int]) -> None:
        """Cuts the other replicas off from the leader and has it take them out of the ISR, as if they lagged."""
        leader, kept = self.leader(topic, partition), set(to)
        if leader is None or leader.broker_id not in kept:
            raise ValueError(
                f"{topic}-{partition} is led by {leader and leader.broker_id}, which must be in {sorted(kept)}"
            )
        for other in self.in_sync(topic, partition) - kept:
            self.interconnect.separate(leader.broker_id, other)
        replica = leader.broker.topics.partition(topic, partition).replica
        assert replica is not None, "a leader without a replica"
        leader.broker.replica_effects.act(replica.leading().shrink_to(kept))
        await self.until(lambda: self.in_sync(topic, partition) <= kept)
