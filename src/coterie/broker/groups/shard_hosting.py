"""Which partitions of `__consumer_offsets` a broker hosts, each with its shard: loaded, loading or resigned.

Shards load in the background after a start; until a shard has loaded, requests of its groups are refused with
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from coterie.broker.groups.hosted_shard import GroupReplication, HostedShard, respond
from coterie.broker.groups.journal_writer import CoordinatorElection
from coterie.broker.groups.lost_commits import verdict
from coterie.broker.groups.shard_loading import ShardLoading
from coterie.broker.process.scheduling import Clock, Scheduler
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.groups import config_of_group
from coterie.broker.storage.topic import NO_LEADER_EPOCH, OFFSETS_TOPIC
from coterie.broker.storage.topics import Topics
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.wire.errors import ErrorCode, Refusal

GROUPS_CACHED = 100_000


class OpenTransactions(Protocol):
    """What a coordinator uses of the transactions that are open, once they are loaded."""

    def orphans(self, pending: Iterable[tuple[int, int]], partition: tuple[str, int]) -> list[tuple[int, int]]:
        """Producers (id, epoch) without an open transaction that has the partition."""

    @property
    def loaded(self) -> bool: ...


class ShardHosting(ABC):
    """The shards, as a broker alone has all of them, and one of a cluster the shards of the partitions that it leads."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: Topics,
        clock: Clock,
        scheduler: Scheduler,
        replication: GroupReplication,
    ) -> None:
        self._settings, self._topics, self._clock, self._replication = settings, topics, clock, replication
        self.config = settings.coordinator()
        self._own_configs: dict[str, CoordinatorConfig] = {}  # of groups with settings of their own
        self.transactions: OpenTransactions | None = None
        self._hosted: list[HostedShard] = []
        self._hosted_by_group: dict[str, HostedShard] = {}  # spares hashing the id with every request
        self._loading = ShardLoading(scheduler, self._load_ended)

    @abstractmethod
    def _load_ended(self, hosted: HostedShard) -> None:
        """The shard has its groups, and possibly losses that an operator must accept."""

    @abstractmethod
    def _committed(self, hosted: HostedShard, decision: Decision, steps: list[Step]) -> None:
        """The decision is in the log and in the shard's state."""

    def start(self) -> None:
        """Hosts a shard for each partition on the disk and begins to load them. In a cluster they are loaded by `elect`."""
        if OFFSETS_TOPIC in self._topics.by_name:
            self._host_shards()
            self._loading.add(hosted for hosted in self._hosted if not hosted.resigned)

    def _host_shards(self) -> None:
        partitions = self._topics.by_name[OFFSETS_TOPIC].partitions
        self._hosted += [
            HostedShard(self._new_shard(), p, self._committed, self._replication)
            for p in partitions[len(self._hosted) :]
        ]

    def _new_shard(self) -> Shard:
        return Shard(self.config, self._own_configs)

    def configure(self, group_id: str, own: Mapping[str, str]) -> None:
        """Puts the settings of a group in force; with none it has the broker's."""
        self._own_configs.pop(group_id, None)
        if own:
            given = self._settings
            self._own_configs[group_id] = config_of_group(self.config, given.current, given.share, given.streams, own)

    @property
    def load_seconds(self) -> float:
        """How long the load at the start took."""
        return self._loading.seconds

    def when_loaded(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once no partition is being loaded, at once where none is."""
        self._loading.when_idle(callback)

    async def loaded(self) -> None:
        """Returns once no partition is being loaded."""
        event = asyncio.Event()
        self.when_loaded(event.set)
        await event.wait()

    def resign(self, index: int, epoch: int) -> bool:
        """Unloads a partition: waiting requests receive NOT_COORDINATOR, as do all requests from now on. False,
        without effect, for an epoch older than that of the last election; NO_LEADER_EPOCH where the replica has no role any
        more: it may be elected in the same epoch again."""
        self.ready()
        hosted = self._hosted[index]
        if NO_LEADER_EPOCH < epoch < hosted.epoch:
            return False
        hosted.queue.write()
        hosted.epoch, hosted.resigned, hosted.loaded = epoch, True, False
        respond(hosted.shard.unload())
        hosted.assignments.resign()
        return True

    def elect(self, index: int, epoch: int, former: int | None = None) -> bool:
        """Begins to load a partition that this broker leads from now on, after ``former`` where that is known; one that it
        leads already only has a newer epoch. False, without effect, for an epoch that is not newer."""
        self.ready()
        hosted = self._hosted[index]
        if epoch <= hosted.epoch:
            return False
        hosted.epoch = epoch
        if hosted.resigned:
            hosted.host(self._new_shard())
            own_id = self._settings.current.node_id
            hosted.election = CoordinatorElection(own_id, epoch, former, self._clock.now_ms())
            self._loading.add([hosted])
        return True

    def ready(self) -> None:
        """Hosts a shard for each partition of `__consumer_offsets`, which a broker alone creates where it does not exist yet.
        Raises Refusal COORDINATOR_NOT_AVAILABLE where the disk fails, NOT_COORDINATOR in a cluster without the topic."""
        if not self._hosted:
            if self._topics.in_cluster and OFFSETS_TOPIC not in self._topics.by_name:
                raise Refusal(ErrorCode.NOT_COORDINATOR)
            self._topics.offsets_topic()
            self._host_shards()
            for hosted in self._hosted:
                hosted.loaded = not hosted.resigned

    def _shard_of(self, group_id: str) -> HostedShard:
        """Raises Refusal while its partition is loading."""
        hosted = self._hosted_by_group.get(group_id)
        if hosted is None:
            self.ready()
            hosted = self._hosted[partition_for(group_id, len(self._hosted))]
            if len(self._hosted_by_group) < GROUPS_CACHED:
                self._hosted_by_group[group_id] = hosted
        if hosted.resigned or hosted.losses:
            accepted = self._settings.current.coterie_offsets_losses_accepted
            raise Refusal(ErrorCode.NOT_COORDINATOR, verdict(hosted.partition, hosted.losses, accepted))
        if not hosted.loaded:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return hosted

    def config_of(self, group_id: str) -> CoordinatorConfig:
        """The settings in force for a group."""
        return self._own_configs.get(group_id, self.config)
