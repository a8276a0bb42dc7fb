"""A broker of the laboratory's cluster that serves real transactional producers too: the broker's own transaction coordinator,
the verification of what its leaders append, and the coordinator of the groups whose offsets are committed in transactions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from coterie.broker.cluster.peers.requests import PeerRequests
from coterie.broker.groups.group_coordinator import GroupCoordinator
from coterie.broker.storage.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Partition
from coterie.broker.transactions.transaction_coordinator import ClusterTransactions
from coterie.broker.transactions.transaction_requests import TransactionRequests
from coterie.broker.transactions.transaction_verification import TransactionVerification
from coterie.broker.transactions.verified_requests import VerifiedRequests
from coterie.controller import nodes
from coterie.coordinator.shard import Shard
from coterie.laboratory.cluster.coordinating_broker import STATE_PARTITIONS, TRANSACTIONAL, UPKEEP_MS, LedShard
from coterie.laboratory.cluster.process import ZOOKEEPER
from coterie.laboratory.cluster.serving_broker import PRODUCED, ServedRecords, ServingBroker
from coterie.wire.declaration import Message
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Read, Znode, ZooKeeperError

SOURCE = "in"  # the topic whose offsets are committed; its records are nowhere


class _Peers:
    """Requests to the other brokers, as `PeerRequests`."""

    def __init__(self, broker: TransactionServingBroker) -> None:
        self._broker = broker

    def send(
        self, broker: int, message: Message, response: type[Message], version: int, answered: Callable[[Any], None]
    ) -> None:
        """See `PeerRequests`."""
        own, target = self._broker, self._broker.peers[broker]
        assert isinstance(target, TransactionServingBroker)
        own.call(
            target,
            partial(target.handle, message, version, own.name),
            answered,
            lambda: answered(None),
        )

    def view_changed(self) -> None:
        """A request to a broker that is gone ends at its timeout."""


class _ZooKeeperTopics:
    """See `DeletedTopics`."""

    def __init__(self, broker: TransactionServingBroker) -> None:
        self._broker = broker

    def look_up(self, topic: str, done: Callable[[set[int] | None], None]) -> None:
        """See `DeletedTopics`."""
        self._broker.later(1, lambda: done(self._broker.partitions_of(topic)))


class ServedTransactions(ServedRecords):
    """See `ServedRecords`."""

    settings_table = {
        **ServedRecords.settings_table,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
        "coterie.journal.enable": "false",
    }
    groups: GroupCoordinator
    coordinator: ClusterTransactions

    def _new_transaction_requests(self) -> TransactionRequests:
        broker, effects = cast(TransactionServingBroker, self._broker), self.replica_effects
        common = self.settings, self.topics
        self.groups = GroupCoordinator(
            *common, self.clock, self.scheduler, self.flusher, effects, broker.world.fresh_id
        )
        peers = cast(PeerRequests, _Peers(broker))
        self.coordinator = ClusterTransactions(
            *common,
            self.cluster,
            self.clock,
            self.scheduler,
            self.features,
            effects,
            peers,
            _ZooKeeperTopics(broker),
        )
        self.coordinator.take_ids_from(broker.take_producer_id)
        verification = TransactionVerification(self.topics, self.cluster, self.coordinator, peers)
        self.verified_requests = VerifiedRequests(self.topics, verification)
        return TransactionRequests(self.coordinator, self.topics, self.groups, effects, self.clock)

    def view_changed(self) -> None:
        """See `ServedRecords`."""
        self.coordinator.view_changed()


class TransactionServingBroker(ServingBroker):
    """See `ServingBroker`."""

    record_topics = PRODUCED | TRANSACTIONAL | {SOURCE}
    services: ServedTransactions

    def start(self) -> None:
        super().start()
        self.services.groups.start()
        self._upkeep()

    def _new_services(self) -> ServedTransactions:
        return ServedTransactions(self, self._effects())

    def _upkeep(self) -> None:
        self.services.coordinator.tick()
        self.later(UPKEEP_MS, self._upkeep)

    def led_states(self) -> list[LedShard]:
        """The partitions of `__transaction_state` that this broker coordinates."""
        led = [hosted for hosted in self.services.coordinator._hosted.values() if not hosted.resigned]
        return [LedShard(hosted.partition.index, hosted.shard, hosted.is_replicated) for hosted in led]

    def led_groups(self) -> list[Shard]:
        """The shards of the partitions of `__consumer_offsets` that this broker coordinates."""
        return [hosted.shard for hosted in self.services.groups._hosted if not hosted.resigned]

    def _role_followed(self, partition: Partition) -> None:
        services = self.services
        if partition.topic == TRANSACTIONS_TOPIC:
            services.coordinator.role_changed(partition)
        elif partition.topic == OFFSETS_TOPIC:
            if partition.is_led:
                services.groups.elect(partition.index, partition.leader_epoch)
            else:
                services.groups.resign(partition.index, partition.leader_epoch)

    def partitions_of(self, topic: str) -> set[int] | None:
        """As ZooKeeper has them: none of a topic that is deleted, None where it cannot be asked."""
        if self.network.is_cut(self.name, ZOOKEEPER):
            return None
        try:
            node = self.server.apply(self._session, Read(paths.topic(topic)))
        except ZooKeeperError:
            return None
        return set(nodes.replicas_of(node.data)) if isinstance(node, Znode) else set()
