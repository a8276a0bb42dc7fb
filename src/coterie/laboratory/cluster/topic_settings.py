"""The settings of topics that an administrator of the laboratory's cluster alters, as one broker knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from coterie.controller import nodes
from coterie.controller.config_changes import ConfigChanges, SettingsChanged
from coterie.laboratory.cluster.disk_replica_log import DiskReplicaLog
from coterie.replication.states import ReplicationConfig

MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
SEGMENT_BYTES, RETENTION_BYTES = "segment.bytes", "retention.bytes"


class TopicSettings:
    """The topics' settings in one life of a broker, in the manner of `broker/cluster/applied_settings`. ``configured`` is
    called after a topic has other settings; ``known``: what was read of each topic."""

    def __init__(self, now_ms: int, config: ReplicationConfig, configured: Callable[[str], None]) -> None:
        self.machine = ConfigChanges(now_ms)
        self.of: dict[str, Mapping[str, str]] = {}
        self.known: dict[str, SettingsChanged] = {}
        self._config, self._configured = config, configured
        self._waiting: list[tuple[set[str], Callable[[], None]]] = []

    def with_settings(self, topics: Iterable[str], then: Callable[[], None]) -> None:
        """Calls ``then`` once the settings of the topics have been read."""
        unread = {topic for topic in topics if topic not in self.known or not self.known[topic].exists}
        if not unread:
            then()
            return
        self._waiting.append((unread, then))
        for topic in sorted(unread):
            self.machine.read(nodes.TOPICS_KIND, topic)

    def effect(self, change: SettingsChanged) -> None:
        """As ZooKeeper has them now."""
        is_other = self.of.get(change.name) != change.settings
        self.of[change.name], self.known[change.name] = change.settings, change
        if is_other:
            self._configured(change.name)
        waiting, self._waiting = self._waiting, []
        for unread, then in waiting:
            unread.discard(change.name)
            if unread:
                self._waiting.append((unread, then))
            else:
                then()

    def forget(self, topic: str) -> None:
        """A topic of that name that is created later has settings of its own."""
        self.of.pop(topic, None)
        self.known.pop(topic, None)

    def replication(self, topic: str) -> ReplicationConfig:
        """What the replicas use."""
        least = self.of.get(topic, {}).get(MIN_ISR)
        return self._config if least is None else replace(self._config, min_insync_replicas=int(least))

    def configure(self, topic: str, log: object) -> None:
        """Puts settings in force, for what comes."""
        if isinstance(log, DiskReplicaLog):
            settings = self.of.get(topic, {})
            segment_bytes, retention_bytes = settings.get(SEGMENT_BYTES), settings.get(RETENTION_BYTES)
            log.configure(
                None if segment_bytes is None else int(segment_bytes),
                None if retention_bytes is None else int(retention_bytes),
            )
