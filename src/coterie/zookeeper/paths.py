"""Kafka 0.8's nodes in ZooKeeper: where they are and what they hold, so that Kafka's own tools read ours and we theirs.

/consumers/G/ids/C               ephemeral   {"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"ms"}
/consumers/G/owners/T/P          ephemeral   C-N, the consumer's thread
/consumers/G/offsets/T/P         persistent  the next offset, in digits
/brokers/ids/B                   ephemeral   {"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"ms"}
/brokers/topics/T                persistent  {"version":1,"partitions":{"0":[1]}}
/brokers/topics/T/partitions/P/state         {"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}

Source: Kafka 0.8's "Kafka data structures in ZooKeeper".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache

from coterie.text.addresses import parse_address
from coterie.zookeeper.operations import Corrupt

CONSUMERS = "/consumers"
BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
VERSION = 1
_MAX_OFFSET_DIGITS = 19  # of a long
# What reading JSON of another shape raises: a number may be infinite, a list nested too deeply.
_MALFORMED = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)


def members(group_id: str) -> str:
    """The parent of the group's registrations."""
    return f"{CONSUMERS}/{group_id}/ids"


def member(group_id: str, consumer_id: str) -> str:
    """A consumer's registration, ephemeral: its streams by topic, as `registration` writes them."""
    return f"{members(group_id)}/{consumer_id}"


@lru_cache(maxsize=8)
def members_of(group_id: str, consumer_ids: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes of all of them."""
    return tuple(member(group_id, consumer_id) for consumer_id in consumer_ids)


def owners(group_id: str, topic: str) -> str:
    """The parent of the owner nodes of a topic's partitions."""
    return f"{CONSUMERS}/{group_id}/owners/{topic}"


def owner(group_id: str, topic: str, partition: int) -> str:
    """A partition's owner node, ephemeral: the id of the consumer's thread."""
    return f"{owners(group_id, topic)}/{partition}"


def offsets(group_id: str, topic: str) -> str:
    """The parent of the group's committed offsets of a topic."""
    return f"{CONSUMERS}/{group_id}/offsets/{topic}"


def offset(group_id: str, topic: str, partition: int) -> str:
    """A committed offset, persistent: that of the next message, in digits."""
    return f"{offsets(group_id, topic)}/{partition}"


def topic(name: str) -> str:
    """A topic's partitions with their replicas."""
    return f"{TOPICS}/{name}"


def partition_state(topic_name: str, partition: int) -> str:
    """A partition's leader and epoch, which the controller writes."""
    return f"{topic(topic_name)}/partitions/{partition}/state"


def broker(broker_id: int) -> str:
    """A broker's registration, ephemeral: its host and port."""
    return f"{BROKERS}/{broker_id}"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def registration(threads: Mapping[str, int], now_ms: int) -> str:
    """A member's node: how many threads read each topic."""
    return _json({"version": VERSION, "subscription": dict(threads), "pattern": "static", "timestamp": str(now_ms)})


@lru_cache(maxsize=65_536)
def subscription_of(text: str) -> Mapping[str, int]:
    """A member's node read: topic -> threads. Raises Corrupt."""
    try:
        subscription = json.loads(text)["subscription"]
        return {str(name): int(count) for name, count in subscription.items()}
    except _MALFORMED as error:
        raise Corrupt(f"a member's node holds {text[:200]!r}") from error


def partitions(replicas: Mapping[int, Iterable[int]]) -> str:
    """A topic's node: partition -> the brokers that hold it."""
    return _json({"version": VERSION, "partitions": {str(p): list(ids) for p, ids in sorted(replicas.items())}})


@lru_cache(maxsize=4_096)
def partitions_of(text: str) -> tuple[int, ...]:
    """A topic's node read: its partitions in order. Raises Corrupt."""
    try:
        return tuple(sorted(int(p) for p in json.loads(text)["partitions"]))
    except _MALFORMED as error:
        raise Corrupt(f"a topic's node holds {text[:200]!r}") from error


def state(leader: int) -> str:
    """A partition's state with one broker."""
    return _json({"controller_epoch": 1, "leader": leader, "version": VERSION, "leader_epoch": 0, "isr": [leader]})


def broker_address(host: str, port: int, now_ms: int) -> str:
    """A broker's node."""
    return _json({"jmx_port": -1, "timestamp": str(now_ms), "host": host, "version": VERSION, "port": port})


def address_of(text: str) -> tuple[str, int]:
    """A broker's node read, of any version: host and port. Raises Corrupt."""
    try:
        node = json.loads(text)
        if node.get("host") is None:  # since 0.9 a listener without a plain address has its endpoints only
            return parse_address(str(node["endpoints"][0]).rpartition("://")[2])
        return str(node["host"]), int(node["port"])
    except _MALFORMED as error:
        raise Corrupt(f"a broker's node holds {text[:200]!r}") from error


def offset_of(text: str) -> int:
    """Raises Corrupt."""
    if not (text.isascii() and text.isdigit()) or len(text) > _MAX_OFFSET_DIGITS:
        raise Corrupt(f"an offset's node holds {text[:40]!r}")
    return int(text)
