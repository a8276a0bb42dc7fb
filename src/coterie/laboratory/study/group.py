"""A group under one protocol, as the study runs it: members come, go and have trouble; traffic is counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from coterie.laboratory.brokers.broker_actor import Removals
from coterie.laboratory.deliveries import Delivered, Ownership, TopicPartition
from coterie.laboratory.members.reading_member import TOPIC
from coterie.laboratory.world import World


@dataclass(frozen=True, slots=True)
class StudySetting:
    """One protocol with its settings; times in ms. ``protocol``: eager, cooperative, consumer, streams, zookeeper, rocketmq.
    ``static``, ``assignor`` (empty: the usual one of the protocol), ``initial_delay_ms``, ``member_id_required``, ``poll_ms``
    (what the code takes for the records of a poll), ``joins_in_polls`` (see `Workload`) and ``listener_ms`` are Kafka's,
    ``orderly`` is RocketMQ's."""

    name: str
    protocol: str
    static: bool = False
    orderly: bool = False
    assignor: str = ""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    initial_delay_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    member_id_required: bool = True
    auto_commit_interval_ms: int = 5_000
    poll_ms: int = 0
    joins_in_polls: bool = False
    listener_ms: int = 100
    metadata_max_age_ms: int = 300_000
    brokers: int = 2
    network_ms: tuple[int, int] = (1, 20)  # shortest and longest way
    clock_drift: float = 0.01  # after the minutes of rest before a change heartbeats are as far apart as after hours
    lossy: float = 0.0  # how many of the requests lose their connection


@dataclass(slots=True)
class Load:
    """The shared state of a run's members. ``checks``: the laboratory's, which change no figure and take half of the time."""

    world: World
    setting: StudySetting
    partitions: int
    records_per_s: int
    checks: bool = True
    meter: Ownership = field(default_factory=Ownership)
    delivered: Delivered = field(default_factory=Delivered)
    removals: Removals = field(default_factory=Removals)


class StudyMember(Protocol):
    """An actor of any protocol."""

    alive: bool


M = TypeVar("M", bound=StudyMember)


class StudyGroup(ABC, Generic[M]):
    """Times in ms of the world's clock. Members are known by their names; one that comes back has the same."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self._members: dict[str, M] = {}

    @abstractmethod
    def join(self, name: str) -> None: ...

    @abstractmethod
    def leave(self, name: str) -> None:
        """It closes in order."""

    @abstractmethod
    def kill(self, name: str) -> None:
        """Ends the member's process."""

    @abstractmethod
    def vanish(self, name: str) -> None:
        """Ends the member's machine: no connection is closed."""

    @abstractmethod
    def pause(self, name: str, ms: int) -> None: ...

    @abstractmethod
    def cut(self, name: str, ms: int) -> None: ...

    @abstractmethod
    def slow(self, name: str, ms: int) -> None:
        """Its code takes so long between two polls. A protocol without a poll interval ignores it."""

    def still(self, name: str, owned: set[TopicPartition], ms: int) -> None:
        """For the meter: what that member owns it does not read for so long."""
        world, meter = self.load.world, self.load.meter
        meter.stalled(name, owned, world.now_ms)
        world.after(ms, lambda: meter.resumed(name, world.now_ms))

    @abstractmethod
    def deaf(self, ms: int) -> None:
        """The brokers' notices of changes are lost."""

    def grow(self, partitions: int) -> None:
        """The topic has so many partitions from now on. Raises NotImplementedError for a protocol without it."""
        raise NotImplementedError(f"{self.load.setting.name}: the study has no topic that grows")

    @property
    def members(self) -> Mapping[str, M]:
        """The newest process of each name, ended ones too."""
        return self._members

    def alive(self) -> set[str]:
        """The names of the running members."""
        return {name for name, member in self._members.items() if member.alive}

    @abstractmethod
    def actor_name(self, name: str) -> str:
        """The member's name in the meter."""

    def partitions(self) -> list[TopicPartition]:
        """All that there is to read."""
        return [(TOPIC, p) for p in range(self.load.partitions)]

    @abstractmethod
    def rebalances(self) -> int:
        """Kafka: of the group. ZooKeeper and RocketMQ: of all its members, since each rebalances by itself."""

    @abstractmethod
    def traffic(self) -> tuple[int, int, dict[int, int]]:
        """Messages, bytes, and messages by second."""

    def gave_up(self) -> int:
        """Members that stopped trying."""
        return 0
