"""The fetcher manager: a thread per broker reads the partitions that it leads and fills their queues.

Leaders are looked up by a thread of their own, at first and whenever a broker fails or is no longer the leader; until
then a partition waits there (Kafka 0.8's LeaderFinderThread).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from coterie.client.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError
from coterie.client.types import TopicPartition
from coterie.client.zookeeper.settings import ZooKeeperConsumerSettings
from coterie.client.zookeeper.streams import PartitionTopicInfo
from coterie.cluster_metadata import Address, ClusterMetadata
from coterie.consuming.position import Position
from coterie.records.batch import BatchError
from coterie.records.compression import CompressionError
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from coterie.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

logger = logging.getLogger(__name__)

NAMES_UP_TO = 12  # from v13 on topics go by id
_RESET = {"smallest": -2, "largest": -1}


class FetcherManager:
    """``brokers`` says who may be asked for leaders; ``failed`` is called with what no retry will mend."""

    def __init__(
        self,
        settings: ZooKeeperConsumerSettings,
        brokers: Callable[[], Sequence[Address]],
        failed: Callable[[Exception], None],
    ) -> None:
        self.settings, self.failed = settings, failed
        self._brokers = brokers
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
        """Their leader is another one, or cannot be reached."""
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
        """Gives each to its leader's fetcher; returns those that have no leader now."""
        leaders = self._leaders({info.topic for info in wanted})
        homeless = []
        for info in wanted:
            address = leaders.get((info.topic, info.partition))
            if address is None:
                homeless.append(info)
                continue
            fetcher = self._fetchers.get(address)
            if fetcher is None or not fetcher.is_alive():
                fetcher = self._fetchers[address] = _Fetcher(self, address, self._stopping)
                fetcher.start()
            fetcher.add(info)
        return homeless

    def _leaders(self, topics: set[str]) -> dict[tuple[str, int], Address]:
        """From whichever broker answers; empty if none does."""
        known = ClusterMetadata(metadata_max_age_ms=0)
        for host, port in self._brokers() if topics else ():
            try:
                connection = self.connect((host, port))
                try:
                    response = connection.request(known.metadata_request(sorted(topics)), highest=9)
                finally:
                    connection.close()
            except KafkaError as error:
                logger.info("%s:%d does not tell the leaders: %s", host, port, error)
                continue
            infos = known.metadata_received(response, now_ms=0)
            partitions = [(topic, partition) for topic, info in infos.items() for partition in info.leaders]
            return {where: address for where in partitions if (address := known.leader_address(*where)) is not None}
        return {}

    def connect(self, address: Address) -> BrokerSocket:
        """Raises KafkaError."""
        timeout_s = self.settings.socket_timeout_ms / 1000
        return BrokerSocket(*address, client_id=self.settings.client_id, timeout_s=timeout_s)


class _Fetcher(threading.Thread):
    """One broker's. Lives until it is stopped, the broker fails, or nothing is left to read there."""

    def __init__(self, manager: FetcherManager, address: Address, stopping: threading.Event) -> None:
        super().__init__(name=f"fetcher-{address[0]}:{address[1]}", daemon=True)
        self._manager, self._address, self._stopping = manager, address, stopping
        self._settings = manager.settings
        self._infos: dict[tuple[str, int], PartitionTopicInfo] = {}
        self._added: list[PartitionTopicInfo] = []
        self._lock = threading.Lock()
        self._connection: BrokerSocket | None = None
        self._ended = False

    def add(self, info: PartitionTopicInfo) -> None:
        with self._lock:
            if not self._ended:
                self._added.append(info)
                return
        self._manager.give_back([info])

    def close(self) -> None:
        """Ends a fetch that is being waited for."""
        connection = self._connection
        if connection is not None:
            connection.abort()

    def run(self) -> None:
        try:
            self._connection = self._manager.connect(self._address)
            while not self._stopping.is_set():
                self._take_in()
                if self._infos:
                    self._fetch()
                else:
                    self._stopping.wait(0.05)
        except (KafkaError, OSError) as error:
            if not self._stopping.is_set():
                logger.info("fetching from %s:%d broke off: %s", *self._address, error)
                self._stopping.wait(self._settings.refresh_leader_backoff_ms / 1000)
        except (BatchError, CompressionError) as error:
            self._manager.failed(KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)))
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
        for info in added:
            if info.fetched_offset < 0:
                self._reset(info)
            self._infos[info.topic, info.partition] = info

    def _reset(self, info: PartitionTopicInfo) -> None:
        """Where auto.offset.reset says: no offset is kept, or it is none of the log's."""
        assert self._connection is not None
        asked = ListOffsetsPartition(info.partition, timestamp=_RESET[self._settings.auto_offset_reset])
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(info.topic, [asked])])
        (topic,) = self._connection.request(request).topics
        (answered,) = topic.partitions
        if answered.error_code:
            raise KafkaError(error_of(answered.error_code), f"{info.topic}-{info.partition}")
        info.fetched_offset = info.consumed_offset = answered.offset

    def _fetch(self) -> None:
        assert self._connection is not None
        topics: dict[str, FetchTopic] = {}
        size = self._settings.fetch_message_max_bytes
        for (topic, partition), info in self._infos.items():
            asked = FetchPartition(partition, fetch_offset=info.fetched_offset, partition_max_bytes=size)
            topics.setdefault(topic, FetchTopic(topic)).partitions.append(asked)
        request = FetchRequest(
            max_wait_ms=self._settings.fetch_wait_max_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=size * len(self._infos),
            topics=list(topics.values()),
        )
        answer = self._connection.request(request, highest=NAMES_UP_TO)
        if answer.error_code:
            raise KafkaError(error_of(answer.error_code))
        for topic_answer in answer.responses:
            for data in topic_answer.partitions:
                self._store(self._infos[topic_answer.topic, data.partition_index], data)

    def _store(self, info: PartitionTopicInfo, data: PartitionData) -> None:
        code = error_of(data.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._reset(info)
            return
        if code:
            logger.info("%s-%d cannot be read here: %s", info.topic, info.partition, code.name)
            del self._infos[info.topic, info.partition]
            self._stopping.wait(self._settings.refresh_leader_backoff_ms / 1000)
            self._manager.give_back([info])
            return
        position = Position(TopicPartition(info.topic, info.partition))
        position.start_at(info.fetched_offset)
        position.store(data, committed_only=False, check_crcs=True)
        while records := position.take(1_000_000):
            if not info.stream.put(info, records, self._stopping):
                return
        info.fetched_offset = max(position.fetch_offset, info.fetched_offset)
