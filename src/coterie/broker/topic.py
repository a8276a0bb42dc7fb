"""A topic and its partitions, which names are legal, and the topics that the broker itself writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from coterie.broker.settings import BrokerSettings
from coterie.journal import TOPIC as JOURNAL_TOPIC
from coterie.log.partition_log import PartitionLog
from coterie.wire.errors import ErrorCode, Refusal

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, JOURNAL_TOPIC})
# As Kafka's GroupCoordinatorService and TransactionLog create them; one replica is all that can be in sync.
_INTERNAL_CONFIGS = {
    OFFSETS_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTIONS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
    },
}
_INTERNAL_SEGMENT_BYTES = {
    OFFSETS_TOPIC: "offsets.topic.segment.bytes",
    TRANSACTIONS_TOPIC: "transaction.state.log.segment.bytes",
}
MAX_PARTITIONS = 100_000
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal_name(name: str) -> bool:
    """Whether a topic may have that name (Kafka's Topic.validate)."""
    return _LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


def check_name(name: str) -> None:
    """Raises Refusal INVALID_TOPIC_EXCEPTION unless the name is legal."""
    if not is_legal_name(name):
        raise Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{name!r} is not a topic name: 1 to 249 letters, digits, '.', '_' or '-'",
        )


def internal_configs(name: str, settings: BrokerSettings) -> dict[str, str]:
    """The settings with which Kafka's own topics are created; none for any other topic."""
    configs = dict(_INTERNAL_CONFIGS.get(name, {}))
    if configs:
        configs["segment.bytes"] = str(settings[_INTERNAL_SEGMENT_BYTES[name]])
    return configs


@dataclass(slots=True)
class Partition:
    """A partition: its log, and the callbacks that wait for an append."""

    topic: str
    index: int
    log: PartitionLog
    watchers: dict[Callable[[], None], None] = field(default_factory=dict)  # in the order of their requests

    def __post_init__(self) -> None:
        self.log.flushing.on_visible = self._call_watchers

    def appended(self) -> None:
        """Calls every watcher, unless readers wait for a sync, which calls them then."""
        if self.watchers and not self.log.flushing.is_held:
            self._call_watchers()

    def _call_watchers(self) -> None:
        for watcher in list(self.watchers):
            watcher()

    def sync_due(self) -> bool:
        """Whether flush.messages requires an fsync before the latest append is acknowledged."""
        return self.log.flushing.messages >= self.log.config.flush_messages

    def sync_if_due(self) -> None:
        """At once. Raises OSError."""
        if self.sync_due():
            self.log.sync()


@dataclass(slots=True)
class Topic:
    """A topic: its id (16 bytes), its own settings, and its partitions by index."""

    name: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: list[Partition] = field(default_factory=list)

    @property
    def internal(self) -> bool:
        """Whether only the broker writes to it."""
        return self.name in INTERNAL_TOPICS
