"""A broker as the laboratory's consumers have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from coterie.coordinator.outcome import Context
from coterie.coordinator.state import Group
from coterie.laboratory.brokers.broker_actor import BrokerCommand, Response


class GroupsView(Protocol):
    """A coordinator's groups of the classic protocol, by id."""

    @property
    def groups(self) -> Mapping[str, Group]:
        """The loaded ones."""
        ...


class MemberBroker(Protocol):
    """What a member's process, and what is checked of it, use of the broker that it has for its coordinator."""

    @property
    def up(self) -> bool:
        """Whether connections reach it."""
        ...

    @property
    def incarnation(self) -> int:
        """Counts its processes: a connection ends with one."""
        ...

    @property
    def partitions(self) -> Mapping[str, int]:
        """How many each topic has."""
        ...

    @property
    def shard(self) -> GroupsView:
        """The shard of the coordinator."""
        ...

    def submit(self, command: BrokerCommand, ctx: Context, response: Response) -> None:
        """Calls ``answer`` with the response, once, unless it ends before."""
        ...
