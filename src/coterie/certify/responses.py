"""A response as JSON with symbols, and what differs between two of them.

Which fields hold what only one broker knows stands in the tables here; every other field is compared as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coterie.wire.declaration import Struct
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.fields import FieldSpec

Tree = Any  # JSON
# Texts for people: that there is one is compared, not its words.
TEXTS = frozenset({"error_message", "batch_index_error_message", "documentation", "message"})
ERRORS = re.compile(r"(^|[._])error_code$")
TIMES = re.compile(r"timestamp|log_append_time|_time_ms$")
BYTES_ON_DISK = frozenset({"partition_size", "total_bytes", "usable_bytes"})
PORTS = frozenset({"port"})
PRODUCERS = frozenset({"producer_id"})
SESSIONS = frozenset({"session_id"})
SUBSCRIPTIONS = frozenset({"subscription_id"})  # a checksum over what is random
NODES = frozenset({"node_id", "broker_id", "leader_id", "controller_id", "leader"})
REPLICAS = frozenset({"replica_nodes", "isr_nodes"})
CLUSTERS = frozenset({"cluster_id"})
FOLDERS = frozenset({"log_dir"})
NOT_TIMES = frozenset({"throttle_time_ms"})
LATE_SETTING = (
    "INVALID_RECORD",
    "POLICY_VIOLATION",
)  # the setting reaches Kafka's log after the response to AlterConfigs
NOT_YET = (
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
    "INVALID_TXN_STATE",
    *LATE_SETTING,
    "NON_EMPTY_GROUP",  # a member that never synchronized is removed at its rebalance timeout
    "INVALID_TOPIC_EXCEPTION",  # 2.6: the topic's deletion is not yet at its end
    "TOPIC_ALREADY_EXISTS",  # 2.6: the same
)
_NAMES = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "transactional_id",
    "resource_name",
    "key",
    "member_id",
    "user",
    "producer_id",
    "entity_type",
    "subtopology_id",
)
_NUMBERS = (
    "partition_index",
    "partition",
    "index",
    "api_key",
    "partition_id",
    "broker_id",
    "node_id",
    "id",
    "producer_id",
    "mechanism",
    "status_code",
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part in which two responses differ: ``path`` with list elements by name, e.g. "topics[$t].error_code"."""

    path: str
    ours: Tree
    theirs: Tree

    def general(self) -> str:
        """The path without the elements' names."""
        return re.sub(r"\[[^\]]*\]", "[]", self.path)


def fields_of(value: Struct, version: int) -> Iterator[tuple[FieldSpec, Any]]:
    """The fields that this version carries."""
    for spec in value.fields:
        if version in spec.versions:
            yield spec, getattr(value, spec.name)


def element_name(item: Tree) -> str:
    """The name of a list's element in a path; "" where it has none."""
    if not isinstance(item, dict):
        return ""
    if isinstance(item.get("entity"), list):  # of a quota: its users, clients or addresses
        return ",".join(sorted(str(part["entity_name"] or "<default>") for part in item["entity"]))
    names = [item[n] for n in _NAMES if isinstance(item.get(n), str)][:1]
    numbers = [item[n] for n in _NUMBERS if isinstance(item.get(n), int)][:1]
    return ":".join(str(part) for part in (*names, *numbers))


def error_name(code: int) -> str:
    """Kafka's name of an error code; ``error N`` for one that is in no table."""
    return error_of(code).name if code in ErrorCode._value2member_map_ else f"error {code}"


def differences(ours: Tree, theirs: Tree, path: str = "") -> Iterator[Part]:
    """Each innermost part that differs; a list with elements missing is one part per missing element."""
    if ours == theirs and type(ours) is type(theirs):
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in {**theirs, **ours}:
            inner = f"{path}.{name}" if path else name
            yield from differences(ours.get(name, "<absent>"), theirs.get(name, "<absent>"), inner)
    elif isinstance(ours, list) and isinstance(theirs, list):
        yield from _list_differences(ours, theirs, path)
    else:
        yield Part(path, ours, theirs)


def _list_differences(ours: list[Tree], theirs: list[Tree], path: str) -> Iterator[Part]:
    here, there = [element_name(item) for item in ours], [element_name(item) for item in theirs]
    unique = len({*here}) == len(here) and len({*there}) == len(there) and "" not in (*here, *there)
    if not unique and sorted(map(repr, ours)) == sorted(map(repr, theirs)):
        yield Part(f"{path}.order", ours, theirs)
    elif unique:
        by_name = dict(zip(there, theirs, strict=True))
        for name, item in zip(here, ours, strict=True):
            if name in by_name:
                yield from differences(item, by_name[name], f"{path}[{name}]")
            else:
                yield Part(f"{path}[{name}]", item, "<absent>")
        for name in there:
            if name not in here:
                yield Part(f"{path}[{name}]", "<absent>", by_name[name])
        shared = [name for name in here if name in by_name]
        if shared != [name for name in there if name in here]:
            yield Part(f"{path}.order", here, there)
    elif len(ours) == len(theirs):
        # Names that repeat: the same names are compared in turn.
        pairs = zip(*(sorted(items, key=element_name) for items in (ours, theirs)), strict=True)
        for n, (one, other) in enumerate(pairs):
            yield from differences(one, other, f"{path}[{element_name(one) or n}]")
    else:
        yield Part(path, ours, theirs)
