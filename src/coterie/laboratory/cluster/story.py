"""One seed of a cluster under faults, and what must hold: `lab fuzz --of clusters`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from coterie.controller import nodes
from coterie.laboratory.cluster.administrator import ORDERS, Administrator
from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.clients import HandMadeClients, StoryClients
from coterie.laboratory.cluster.configured_broker import TopicConfiguredBroker
from coterie.laboratory.cluster.directory_broker import DirectoryBroker
from coterie.laboratory.cluster.directory_faults import DirectoryFaults
from coterie.laboratory.cluster.disk_replica_log import DiskReplicaLog
from coterie.laboratory.cluster.later_faults import HOLES_FROM, LATER_FAULTS_FROM, LaterFaults, start_if_dead
from coterie.laboratory.cluster.machine_clocks import MachineClocks
from coterie.laboratory.cluster.process import ZOOKEEPER, Network
from coterie.laboratory.cluster.producer_id_checker import ProducerIdChecker
from coterie.laboratory.cluster.replica_checker import ReplicaChecker, state_versions
from coterie.laboratory.cluster.report import ClusterReport
from coterie.laboratory.cluster.settings_checker import unapplied_settings
from coterie.laboratory.fuzz import naming_seed
from coterie.laboratory.world import World
from coterie.laboratory.zookeeper_server import ZooKeeperServer
from coterie.replication.states import ReplicationConfig, TopicPartition
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Create, Read, Znode

SESSION_TIMEOUT_MS = 6_000
LAG_MS = 4_000
MIN_INSYNC_REPLICAS = 2
LENGTHS_MS = (500, 3_000, 9_000, 18_000)  # of faults
PARTITIONS = 3
ALL_FAULTS_FROM = 50_000  # tests keep seeds before it, with the stories that they had
PRODUCER_IDS_FROM, TAKEN_EVERY_MS = 130_000, 1_500
ON_DISK_FROM = 100  # every second seed has the broker's own logs, on a disk in memory
QUIET_AT_REST_FROM = 160_000
REBALANCED_LEADERS_FROM = 180_000
AT_REST_MS = 25_000  # after the last fault: sessions expire, the ISRs are whole
ALL_READ_MS = 10_000  # after the last record


class ClusterStory:
    """Three to five brokers; each partition has three replicas, and two of them must have what is acknowledged."""

    def __init__(self, seed: int) -> None:
        world = self.world = World(seed)
        self.network, self.server = Network(world), ZooKeeperServer(world)
        config = ReplicationConfig(
            min_insync_replicas=MIN_INSYNC_REPLICAS, replica_lag_time_max_ms=LAG_MS, replica_fetch_backoff_ms=300
        )
        numbers = range(1, world.between(3, 5) + 1)
        self.brokers: dict[int, TopicConfiguredBroker] = {n: self._new_broker(n, config) for n in numbers}
        self.report, self.failures = ClusterReport(seed), list[str]()
        self._uncertain: set[int] = set()  # their machine lost power, until they are in all their ISRs again
        self._leaders: dict[tuple[TopicPartition, int], set[int]] = {}
        has_disk = seed >= ON_DISK_FROM and seed % 2 == 1
        # each append, as with log.flush.interval.messages=1
        self.syncs = has_disk and seed >= ALL_FAULTS_FROM and seed % 3 == 0
        self.producer_ids = ProducerIdChecker(self.failures)
        self.reserves_ids = seed >= PRODUCER_IDS_FROM
        self._has_later_faults = seed >= LATER_FAULTS_FROM
        self._rebalances_leaders = seed >= REBALANCED_LEADERS_FROM
        for broker in self.brokers.values():
            broker.disk.syncs, broker.disk.leaves_holes = self.syncs, seed >= HOLES_FROM
            broker.peers, broker.appended, broker.has_disk = self.brokers, self._appended, has_disk
            broker.rebalances_leaders = self._rebalances_leaders
            broker.reserves_ids, broker.id_given = self.reserves_ids, self.producer_ids.given
            broker.reads_settings, broker.retain = self._has_later_faults, self._retain
        self._clocks = MachineClocks(world, self.brokers, self.report)
        self.administrator = Administrator(self.network, self.brokers, self.server)
        self.clients = self._new_clients()
        self.administrator.made, self.administrator.deleted = self._made, self.clients.deleted
        self._directories = DirectoryFaults(
            self.administrator, self.brokers, self.report, self.failures, self._fail_fsync
        )
        if has_disk:
            self.administrator.more_acts = (self.administrator.delete_records,)

    def _new_broker(self, number: int, config: ReplicationConfig) -> TopicConfiguredBroker:
        return TopicConfiguredBroker(self.network, number, self.server, config, SESSION_TIMEOUT_MS)

    def _new_clients(self) -> StoryClients:
        return HandMadeClients(self.network, self.brokers)

    def _made(self, partition: TopicPartition) -> None:
        """A new partition gets its clients."""
        self.administrator.record_deletions.forget(partition)
        self._leaders = {key: leaders for key, leaders in self._leaders.items() if key[0] != partition}
        self.clients.made(partition)

    def _retain(self, partition: TopicPartition, log: DiskReplicaLog) -> None:
        self.administrator.record_deletions.retain(self.world.now_ms, partition, log)

    def _appended(self, partition: TopicPartition, leader_epoch: int, broker: int) -> None:
        self._leaders.setdefault((partition, leader_epoch), set()).add(broker)

    # -- the story ------------------------------------------------------------------------------------------------------

    def run(self, length_ms: int) -> ClusterReport:
        """Runs the story for ``length_ms`` of virtual time, lets the faults pass, and checks what must hold at rest."""
        world = self.world
        self._create_topic()
        for broker in self.brokers.values():
            broker.start()
        world.run_until(world.now_ms + 5_000)
        world.faults.break_probability = world.random.choice((0.0, 0.01, 0.05))
        end_ms = world.now_ms + length_ms
        self._begin_faults(end_ms)
        world.run_until(end_ms + 20_000)  # the longest fault is over
        self._mend()
        world.run_until(world.now_ms + AT_REST_MS)
        if self._directories.are_due:
            self._directories.fail_at_rest()
            world.run_until(world.now_ms + AT_REST_MS)
        self.clients.finish()
        versions = state_versions(self.administrator)
        world.run_until(world.now_ms + ALL_READ_MS)
        if self.report.seed >= QUIET_AT_REST_FROM and state_versions(self.administrator) != versions:
            self.failures.append("the states of partitions are written although nothing happens any more")
        self._check()
        return self._summed_up()

    def _create_topic(self) -> None:
        administrator = self.administrator
        administrator.started()
        for path in (paths.BROKERS, nodes.ISR_CHANGES, nodes.DELETED_TOPICS):
            administrator.apply(Create(path, "", ephemeral=False))
        administrator.create(ORDERS, {p: administrator.some(3) for p in range(PARTITIONS)})

    # -- faults ---------------------------------------------------------------------------------------------------------

    def _begin_faults(self, end_ms: int) -> None:
        """They occur until then."""
        self.world.strike_until(end_ms, 15_000, self._strike)
        self.world.strike_until(end_ms, 6_000, self.administrator.act)
        if self._has_later_faults:
            LaterFaults(self.administrator, self.report, self._cut_power, self._may_shut_down).strike_until(end_ms)
        if self.reserves_ids:
            self.world.strike_until(end_ms, TAKEN_EVERY_MS, self._take_producer_ids)
        self._clocks.strike_until(end_ms)
        self._directories.strike_until(end_ms)

    def _strike(self) -> None:
        faults: tuple[Callable[[], None], ...] = (
            self._crash,
            self._crash,
            self._power_cut,
            self._pause,
            self._cut,
            self._cut_off_zookeeper,
            self._shut_down,
        )
        if self.report.seed >= ALL_FAULTS_FROM:
            of_all = self._power_cut_of_all if self.syncs else self._crash_all
            faults = (*faults, *faults, of_all, self._lose_zookeeper_twice, self._fill_disk)
        self.world.random.choice(faults)()

    def _take_producer_ids(self) -> None:
        """Some at each broker at the same time, so that they reserve blocks at the same time."""
        self.producer_ids.take(self._running(), lambda: self.world.between(0, 3))

    def _running(self) -> list[ClusterBroker]:
        return [b for b in self.brokers.values() if b.alive and not b.paused]

    def _victim(self) -> ClusterBroker | None:
        running = self._running()
        return self.world.random.choice(running) if running else None

    def _length_ms(self) -> int:
        return self.world.random.choice(LENGTHS_MS)

    def _crash(self) -> None:
        if (victim := self._victim()) is not None:
            self.report.broker_crashes += 1
            victim.crash()
            self.world.after(self._length_ms(), partial(start_if_dead, victim))

    def _crash_all(self) -> None:
        """They come back one after another, each with its log as the system has it."""
        self.report.crashes_of_all += 1
        for broker in self.brokers.values():
            if broker.alive:
                self.report.broker_crashes += 1
                broker.crash()
                self.world.after(self._length_ms(), partial(start_if_dead, broker))

    def _power_cut(self) -> None:
        """Not where all that is in sync would have lost power: then nothing can hold, unless each append is synced."""
        if (victim := self._victim()) is not None:
            self._cut_power(victim)

    def _cut_power(self, victim: ClusterBroker) -> bool:
        """Whether it was done."""
        if not self._may_lose_unsynced(victim):
            return False
        self.report.power_cuts += 1
        self.report.broker_crashes += 1
        victim.power_cut()
        self.world.after(self._length_ms(), partial(start_if_dead, victim))
        return True

    def _may_lose_unsynced(self, victim: ClusterBroker) -> bool:
        """It counts as uncertain then."""
        if not (self.syncs or self._may_lose_power(victim)):
            return False
        self._uncertain.add(victim.number)
        return True

    def _fail_fsync(self, victim: DirectoryBroker) -> bool:
        """Whether it was done."""
        if not self._may_lose_unsynced(victim):
            return False
        victim.fail_fsync()
        return True

    def _fill_disk(self) -> None:
        """One broker can write nothing for a while."""
        victim = self._victim()
        if victim is not None and victim.has_disk:
            self.report.full_disks += 1
            victim.disk.is_full = True
            self.world.after(self._length_ms(), partial(setattr, victim.disk, "is_full", False))

    def _power_cut_of_all(self) -> None:
        self.report.power_cuts_of_all += 1
        for broker in self.brokers.values():
            if broker.alive:
                broker.power_cut()
                self.world.after(self._length_ms(), partial(start_if_dead, broker))

    def _may_lose_power(self, victim: ClusterBroker) -> bool:
        """With later faults one at a time: what two have lost within a session the controller cannot know."""
        if self._has_later_faults and any(self._may_lack(n) for n in self.brokers if n != victim.number):
            return False
        return self._leaves_whole_replicas(victim)

    def _leaves_whole_replicas(self, victim: ClusterBroker) -> bool:
        return all(self._others_are_whole(victim, p) for p in self.administrator.partitions())

    def _others_are_whole(self, victim: ClusterBroker, partition: TopicPartition) -> bool:
        """Whether another member of the ISR has all that the ISR must have. A replica whose machine lost power does again
        once it has come back and joined."""
        isr = self._isr(partition)
        if victim.number not in isr:
            return True
        return any(r != victim.number and not self._may_lack(r) for r in isr)

    def _may_shut_down(self, victim: ClusterBroker) -> bool:
        """With later faults not where machines without power whose sessions live would lead: no controller can know."""
        return not self._has_later_faults or all(
            self._others_are_whole(victim, p) or self._registered_beside(victim, p) < MIN_INSYNC_REPLICAS
            for p in self.administrator.partitions()
        )

    def _registered_beside(self, victim: ClusterBroker, partition: TopicPartition) -> int:
        nodes_of_isr = (Read(paths.broker(r)) for r in self._isr(partition) if r != victim.number)
        return sum(isinstance(self.administrator.apply(read), Znode) for read in nodes_of_isr)

    def _may_lack(self, number: int) -> bool:
        broker = self.brokers[number]
        if (
            number in self._uncertain
            and broker.alive
            and not broker.lost_power  # it left its ISRs and registered
            and all(number in self._isr(p) for p in self._replicated_by(number))
        ):
            self._uncertain.discard(number)
        return number in self._uncertain

    def _replicated_by(self, number: int) -> list[TopicPartition]:
        return [p for p, assignment in self.administrator.partitions().items() if number in assignment.target]

    def _isr(self, partition: TopicPartition) -> tuple[int, ...]:
        node = self.administrator.apply(Read(paths.partition_state(*partition)))
        return nodes.state_of(node, ()).isr if isinstance(node, Znode) else ()

    def _pause(self) -> None:
        if (victim := self._victim()) is not None:
            life = victim.life
            victim.pause()
            self.world.after(self._length_ms(), lambda: self._unless_restarted(victim, life, victim.go_on))

    def _unless_restarted(self, broker: ClusterBroker, life: int, action: Callable[[], None]) -> None:
        if broker.alive and broker.life == life:
            action()

    def _cut(self) -> None:
        """Two brokers, or a broker and all others, or a client and a broker."""
        names = [b.name for b in self.brokers.values()] + self.clients.names()
        one = self.world.random.choice(list(self.brokers.values())).name
        others = [n for n in names if n != one] if self.world.chance(0.4) else [self.world.random.choice(names)]
        pairs = {frozenset((one, other)) for other in others if other != one}
        self.network.cut |= pairs
        self.world.after(self._length_ms(), lambda: self.network.cut.difference_update(pairs))

    def _cut_off_zookeeper(self) -> None:
        if (victim := self._victim()) is not None:
            self._lose_zookeeper(victim, LENGTHS_MS, lambda: None)

    def _lose_zookeeper_twice(self) -> None:
        """All of them, or one: a session may expire, and the next one before its broker has a role."""
        self.report.zookeeper_outages += 1
        victims = self._running()
        for victim in victims if self.world.chance(0.5) else victims[:1]:
            again = partial(self._lose_zookeeper, victim, LENGTHS_MS[:-1], lambda: None)
            between_ms = self.world.between(1, 500)
            self._lose_zookeeper(victim, LENGTHS_MS[:-1], partial(self.world.after, between_ms, again))

    def _lose_zookeeper(self, victim: ClusterBroker, lengths_ms: Sequence[int], healed: Callable[[], None]) -> None:
        if not victim.alive or victim.paused or self.network.is_cut(victim.name, ZOOKEEPER):
            return
        pair = frozenset((victim.name, ZOOKEEPER))
        self.network.cut.add(pair)
        victim.lose_zookeeper()

        def heal() -> None:
            self.network.cut.discard(pair)
            victim.reach_zookeeper_again()
            healed()

        self.world.after(self.world.random.choice(lengths_ms), heal)

    def _shut_down(self) -> None:
        if (victim := self._victim()) is not None and self._may_shut_down(victim):
            length_ms = self._length_ms()
            victim.shut_down(lambda: self.world.after(length_ms, partial(start_if_dead, victim)))

    def _mend(self) -> None:
        self.world.faults.break_probability = 0.0
        self.network.cut.clear()
        for broker in self.brokers.values():
            if not broker.alive:
                broker.start()
            elif broker.paused:
                broker.go_on()
            else:
                broker.reach_zookeeper_again()

    # -- what must hold -------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        failures = self.failures
        for (partition, epoch), leaders in self._leaders.items():
            if len(leaders) > 1:
                failures.append(f"{partition} had leaders {sorted(leaders)} in epoch {epoch}")
        partitions = self.administrator.partitions()
        replicas = ReplicaChecker(self.brokers, self.administrator, self.report, failures)
        for produced in self.clients.produced():
            replicas.check_partition(produced, partitions.get(produced.partition))
        replicas.check_deletions(partitions, self.clients.formerly_produced())
        if self._rebalances_leaders:
            replicas.check_preferred_leaders(partitions)
        for broker in self.brokers.values():
            failures += unapplied_settings(self.administrator, broker)
        if self.reserves_ids:
            self.producer_ids.check(self.brokers.values())
        failures += self.clients.violations(self.administrator)
        assert not failures, "; ".join(failures)

    def _summed_up(self) -> ClusterReport:
        report = self.report
        report.events, report.producer_ids = self.world.events, self.producer_ids.count
        report.acknowledged = sum(len(produced.acknowledged) for produced in self.clients.produced())
        report.delivered = self.clients.delivered()
        administrator = self.administrator
        report.topics, report.deletions = administrator.topics, administrator.deletions
        report.reassignments = administrator.reassignments
        report.record_deletions = administrator.record_deletions.count
        report.alterations, report.retentions = administrator.alterations, administrator.record_deletions.retained
        report.elections = len(self._leaders)
        report.controllers = max(b.replicas.controller_epoch for b in self.brokers.values())
        return report


def run_cluster_seed(seed: int, minutes: float = 5.0) -> ClusterReport:
    """The same seed gives the same story. Raises FuzzFailure."""
    with naming_seed(seed):
        return ClusterStory(seed).run(int(minutes * 60_000))
