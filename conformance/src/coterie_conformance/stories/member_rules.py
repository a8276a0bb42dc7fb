"""What must hold at every moment of the members that run: nobody reads what another may. Each rule raises AssertionError."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.client import Consumer
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.state import Phase
from coterie.laboratory.checking.consumer_group_checker import check_user

Consumers = Mapping[str, Consumer[Any, Any]]


def check_member(group: AnyGroup, name: str, consumer: Consumer[Any, Any], topic_ids: Mapping[str, bytes]) -> None:
    """What a member of the consumer protocol reads, the coordinator gives to nobody else."""
    if isinstance(group, ConsumerGroup):
        member_id = consumer.group_metadata().member_id
        used = {(topic_ids[tp.topic], tp.partition) for tp in consumer.assignment()}
        check_user(group, name, member_id, consumer.generation, used)


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
