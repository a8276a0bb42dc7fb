"""What must hold at every moment of the members that run: nobody reads what another may. Each rule raises AssertionError."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.client import Consumer
from coterie.coordinator.consumer.state import ConsumerGroup, TopicIdPartition
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.state import Phase

Consumers = Mapping[str, Consumer[Any, Any]]


def check_member(group: AnyGroup, name: str, consumer: Consumer[Any, Any], topic_ids: Mapping[str, bytes]) -> None:
    """What a member of the consumer protocol reads, the coordinator gives to nobody else."""
    if isinstance(group, ConsumerGroup):
        member_id = consumer.group_metadata().member_id
        used = {(topic_ids[tp.topic], tp.partition) for tp in consumer.assignment()}
        _check_user(group, name, member_id, consumer.generation, used)


def _check_user(group: ConsumerGroup, name: str, member_id: str, epoch: int, used: Iterable[TopicIdPartition]) -> None:
    """What ``name`` uses as this member in its present epoch, or the one before, the coordinator gives to nobody else. Who is
    in an older one, or in the group no more, does not know it yet."""
    member = group.members.get(member_id)
    if (
        member is not None
        and epoch > 0
        and epoch in (member.current.member_epoch, member.current.previous_member_epoch)
    ):
        free = set(used) - member.current.assigned.keys() - member.current.pending_revocation.keys()
        assert not free, f"{name} uses {sorted(free)}, which the coordinator may give to others"


def check_owners(group: AnyGroup, consumers: Consumers, running: Iterable[str]) -> None:
    """In a stable generation of the classic protocol no partition has two owners."""
    if isinstance(group, ConsumerGroup) or group.phase != Phase.STABLE:
        return
    owner: dict[Any, str] = {}
    for name in running:
        consumer = consumers.get(name)
        if consumer is None or consumer.generation != group.generation:
            continue
        if consumer.group_metadata().member_id in group.members:
            for partition in consumer.assignment():
                assert partition not in owner, f"{partition} is owned by {owner[partition]} and {name}"
                owner[partition] = name
