"""The fetcher manager: a thread per broker reads the partitions that it leads and fills their queues.

Leaders are looked up by a thread of their own, at first and whenever a broker fails or is no longer the leader; until
then a partition waits there (Kafka 0.8's LeaderFinderThread).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError
from coterie.client.pauses.clock import Waits, jitter, now_ms
from coterie.client.zookeeper.settings import ZooKeeperConsumerSettings
from coterie.client.zookeeper.streams import PartitionTopicInfo
from coterie.consuming.effects import PartitionFailed, RefreshMetadata, SendFetch
from coterie.consuming.fetching.fetching import Fetching
from coterie.consuming.fetching.requests import FetchConfig
from coterie.consuming.record import TopicPartition
from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import Address, ClusterMetadata
from coterie.wire import topic_names
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.logs.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

logger = logging.getLogger(__name__)

A_CHUNK = 1_000_000  # records: all that one response has
_RESET = {"smallest": -2, "largest": -1}


class FetcherManager:
    """``brokers`` know the leaders; ``failed`` is called with an error that no retry will mend."""

    def __init__(
        self,
        settings: ZooKeeperConsumerSettings,
        brokers: Callable[[], Sequence[Address]],
        failed: Callable[[Exception], None],
    ) -> None:
        self.settings, self.failed = settings, failed
        self._brokers = brokers
        self._waits = Waits(f"client {settings.client_id}, group {settings.group_id},")
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._infos: list[PartitionTopicInfo] = []
        self._homeless: list[PartitionTopicInfo] = []  # those whose leader is to be found
        self._wake = threading.Event()
        self._fetchers: dict[Address, _Fetcher] = {}
        self._finder: threading.Thread | None = None

    def start(self, infos: Iterable[PartitionTopicInfo]) -> None:
        """Reads these, each from its fetched offset."""
        self._infos = list(infos)
        self._homeless = list(self._infos)
        self._stopping = threading.Event()
        if self._homeless:
            self._wake.set()
            self._finder = threading.Thread(target=self._find_leaders, name="leader-finder", daemon=True)
            self._finder.start()

    def stop(self) -> None:
        """Returns when no thread of the manager puts anything into a queue any more."""
        self._stopping.set()
        self._wake.set()
        for info in self._infos:
            info.stream.wake()
        if self._finder is not None:
            self._finder.join()
            self._finder = None
        for fetcher in self._fetchers.values():
            fetcher.close()
        for fetcher in self._fetchers.values():
            fetcher.join()
        self._fetchers, self._homeless = {}, []

    def give_back(self, infos: Iterable[PartitionTopicInfo]) -> None:
        """These partitions have another leader, or theirs cannot be reached."""
        with self._lock:
            self._homeless += infos
        self._wake.set()

    def _find_leaders(self) -> None:
        stopping, backoff_s = self._stopping, self.settings.refresh_leader_backoff_ms / 1000
        while True:
            self._wake.wait()
            if stopping.is_set():
                return
            self._wake.clear()
            with self._lock:
                wanted, self._homeless = self._homeless, []
            homeless = self._settle(wanted)
            if homeless:
                stopping.wait(backoff_s)
                self.give_back(homeless)

    def _settle(self, wanted: list[PartitionTopicInfo]) -> list[PartitionTopicInfo]:
        """Gives each partition to its leader's fetcher; returns the partitions without a leader."""
        leaders, why = self._leaders({info.topic for info in wanted})
        homeless = []
        for info in wanted:
            address, what = leaders.get((info.topic, info.partition)), f"a leader of {info.topic}-{info.partition}"
            if address is None:
                homeless.append(info)
                self._waits.failed(what, why)
                continue
            self._waits.succeeded(what)
            fetcher = self._fetchers.get(address)
            if fetcher is None or not fetcher.is_alive():
                fetcher = self._fetchers[address] = _Fetcher(self, address, self._stopping)
                fetcher.start()
            fetcher.add(info)
        return homeless

    def _leaders(self, topics: set[str]) -> tuple[dict[tuple[str, int], Address], str]:
        """From whichever broker responds, with the reason why one may lack; empty if none does."""
        known = ClusterMetadata(metadata_max_age_ms=0)
        why = "no broker is registered in ZooKeeper"
        for host, port in self._brokers() if topics else ():
            try:
                connection = self.connect((host, port))
                try:
                    response = connection.request(known.metadata_request(sorted(topics)), highest=9)
                finally:
                    connection.close()
            except KafkaError as error:
                logger.info("%s:%d returned no leaders: %s", host, port, error)
                why = str(error)
                continue
            infos = known.metadata_received(response, now_ms=0)
            partitions = [(topic, partition) for topic, info in infos.items() for partition in info.leaders]
            leaders = {where: known.leader_address(*where) for where in partitions}
            there = {where: address for where, address in leaders.items() if address is not None}
            return there, ErrorCode.LEADER_NOT_AVAILABLE.text
        return {}, why

    def connect(self, address: Address) -> BrokerSocket:
        """Raises KafkaError."""
        timeout_s = self.settings.socket_timeout_ms / 1000
        return BrokerSocket(*address, client_id=self.settings.client_id, timeout_s=timeout_s)


class _Fetcher(threading.Thread):
    """One broker's, which drives a fetching machine (`consuming/fetching/fetching`) of the partitions that it leads. Lives
    until it is stopped or the broker fails."""

    def __init__(self, manager: FetcherManager, address: Address, stopping: threading.Event) -> None:
        super().__init__(name=f"fetcher-{address[0]}:{address[1]}", daemon=True)
        self._manager, self._address, self._stopping = manager, address, stopping
        self._settings = manager.settings
        self._known = ClusterMetadata(metadata_max_age_ms=0)
        self._machine = Fetching(_fetch_config(self._settings), self._known)
        self._infos: dict[TopicPartition, PartitionTopicInfo] = {}
        self._added: list[PartitionTopicInfo] = []
        self._lock = threading.Lock()
        self._connection: BrokerSocket | None = None
        self._ended = False
        self._woken = threading.Event()

    def add(self, info: PartitionTopicInfo) -> None:
        with self._lock:
            if not self._ended:
                self._added.append(info)
                self._woken.set()
                return
        self._manager.give_back([info])

    def close(self) -> None:
        """Ends a fetch that is being waited for, and any other wait."""
        self._woken.set()
        connection = self._connection
        if connection is not None:
            connection.abort()

    def run(self) -> None:
        try:
            self._connection = self._manager.connect(self._address)
            while not self._stopping.is_set():
                self._take_in()
                self._look_up_positions(self._connection)
                if not self._carry_out(self._connection):
                    self._wait()
                self._hand_out()
        except (KafkaError, OSError) as error:
            if not self._stopping.is_set():
                logger.info("the fetch from %s:%d failed: %s", *self._address, error)
                self._stopping.wait(self._settings.refresh_leader_backoff_ms / 1000)
        finally:
            self._end()

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        with self._lock:
            self._ended = True
            left = [*self._infos.values(), *self._added]
        if left and not self._stopping.is_set():
            self._manager.give_back(left)

    def _take_in(self) -> None:
        with self._lock:
            added, self._added = self._added, []
            self._infos |= {TopicPartition(info.topic, info.partition): info for info in added}
        if not added:
            return
        self._machine.assign([*self._machine.positions, *self._infos])
        for info in added:
            self._known.assume_leader(info.topic, info.partition, self._address)
            self._machine.seek(TopicPartition(info.topic, info.partition), info.fetched_offset)

    def _look_up_positions(self, connection: BrokerSocket) -> None:
        """Where auto.offset.reset says: no offset is kept, or it is none of the log's."""
        for where in [*self._machine.initializing(), *self._machine.resets_due()]:
            requested = ListOffsetsPartition(where.partition, timestamp=_RESET[self._settings.auto_offset_reset])
            response = connection.request(ListOffsetsRequest(topics=[ListOffsetsTopic(where.topic, [requested])]))
            partition = response.topics[0].partitions[0]
            if partition.error_code:
                self._give_back([where], error_of(partition.error_code), pause=True)
                continue
            info = self._infos[where]
            info.fetched_offset = info.consumed_offset = partition.offset
            self._machine.seek(where, partition.offset)

    def _carry_out(self, connection: BrokerSocket) -> bool:
        """Whether anything was due."""
        effects = self._machine.next(now_ms())
        for effect in effects:
            match effect:
                case SendFetch():
                    response = connection.request(effect.request, highest=topic_names.FETCH)
                    self._machine.responded(effect, response, now_ms(), jitter())
                case RefreshMetadata():
                    leaderless = [where for where, position in self._machine.positions.items() if position.leader_due]
                    self._machine.metadata_refreshed(effect, now_ms(), jitter())
                    self._give_back(leaderless, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                case PartitionFailed(partition, code):
                    self._give_back([partition], code, pause=True)
        return bool(effects)

    def _wait(self) -> None:
        """Until the machine's deadline, a partition that is added, or the end."""
        deadline_ms = self._machine.next_deadline_ms()
        self._woken.wait(None if deadline_ms is None else max(deadline_ms - now_ms(), 0) / 1000)
        self._woken.clear()

    def _hand_out(self) -> None:
        """What came, into the streams; a batch that cannot be read ends them."""
        while taken := self._machine.take(A_CHUNK):
            for where, records in taken.items():
                info = self._infos[where]
                if not info.stream.put(info, records, self._stopping):
                    return
                info.fetched_offset = self._machine.positions[where].offset
        damage = self._machine.damage_due()
        if damage is not None:
            self._manager.failed(KafkaError(ErrorCode.CORRUPT_MESSAGE, str(damage[1].cause)))
            self._drop([damage[0]])

    def _give_back(self, partitions: list[TopicPartition], code: ErrorCode, *, pause: bool = False) -> None:
        """They cannot be read here now: their leader is to be looked up."""
        infos = [self._infos[where] for where in partitions]
        for info in infos:
            logger.info("%s-%d cannot be read here: %s", info.topic, info.partition, code.name)
        self._drop(partitions)
        if pause:  # elsewhere the machine has paused
            self._stopping.wait(self._settings.refresh_leader_backoff_ms / 1000)
        self._manager.give_back(infos)

    def _drop(self, partitions: list[TopicPartition]) -> None:
        self._machine.drop(partitions)
        with self._lock:
            for where in partitions:
                del self._infos[where]


def _fetch_config(settings: ZooKeeperConsumerSettings) -> FetchConfig:
    return FetchConfig(
        min_bytes=settings.fetch_min_bytes,
        max_wait_ms=settings.fetch_wait_max_ms,
        max_bytes=2**31 - 1,
        max_partition_bytes=settings.fetch_message_max_bytes,
        buffer_bytes=0,
        incremental=False,
        backoff=Backoff(settings.refresh_leader_backoff_ms, settings.refresh_leader_backoff_ms),
    )
