"""The order of the parts of `compare`: what a change breaks most often comes first; and how long each takes.
`coterie-conformance compare --list` prints it, docs/contributing/conformance.md has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

MOST_MINUTES = 30  # of a part, all versions together
NIGHT_MINUTES = 8 * 60


@dataclass(frozen=True, slots=True)
class PartInOrder:
    """``broken_by``: the changes after which the part is worth running alone. ``minutes``: beside one version of Kafka, on two
    cores at rest."""

    broken_by: str
    minutes: float


ORDER: dict[str, PartInOrder] = {
    "requests": PartInOrder("a rule of groups, offsets or transactions", 3),
    "acls": PartInOrder("an API, what it checks: `access/stories`", 5),
    "security": PartInOrder("a listener, TLS, SASL", 10),
    "consumer-groups": PartInOrder("a rule of groups of KIP-848", 1),
    "everything": PartInOrder("a message, a version, a setting, an error", 5),
    "certify": PartInOrder("a question of the rules; a new Kafka", 2),
    "format": PartInOrder("what is written to the log", 1),
    "assignors": PartInOrder("an assignor", 3),
    "client": PartInOrder("our consumer, producer or admin client", 2),
    "cli": PartInOrder("a command", 3),
    "tools": PartInOrder("administration", 8),
    "clients": PartInOrder("administration, as other clients use it", 9),
    "members": PartInOrder("how members of KIP-848 lose and get partitions", 5),
    "share-clients": PartInOrder("a rule of share groups, the share consumer", 10),
    "certify-client": PartInOrder("a story of `certify-client`, a rule of its verdict", 28),
    "observe": PartInOrder("a rule of the observer, what the proxy sees of groups", 4),
    "proxy": PartInOrder("what passes the proxy", 8),
    "console": PartInOrder("a page or script of the console, what the observer describes", 5),
    "predict": PartInOrder("the laboratory's member or coordinator, a prediction", 18),
    "zookeeper": PartInOrder("the high-level consumer, old message formats", 6),
    "spark": PartInOrder("the Spark source and sink", 10),
    "hostile": PartInOrder("a limit, the reading of requests", 20),
    "languages": PartInOrder("the control API, an operation", 3),
    "histories": PartInOrder("durability, the start after a kill", 4),
    "applications": PartInOrder("transactions, the start after a kill", 9),
    "cluster": PartInOrder("replication, the controller", 25),
    "cluster-clients": PartInOrder("the time without a coordinator or leader", 15),
    "rocketmq": PartInOrder("the consumer of RocketMQ", 6),
}


def in_order(parts: Iterable[str]) -> list[str]:
    """These parts, first what a change breaks most often."""
    wanted = set(parts)
    return [name for name in ORDER if name in wanted] + sorted(wanted - ORDER.keys())


def runs(parts: Iterable[str], versions_of: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Each part with each version of Kafka that it runs on, the newest first; "" where it chooses by itself."""
    for name in in_order(parts):
        for version in reversed(versions_of.get(name, ("",))):
            yield name, version


def rows(versions_of: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str, str, str]]:
    """Part, versions of Kafka, minutes of all of them, and what breaks it; at the end their sum."""
    made, total = [], 0.0
    for name, part in ORDER.items():
        versions = versions_of.get(name, ("",))
        minutes = part.minutes * len(versions)
        total += minutes
        made.append((name, ", ".join(versions), f"{minutes:g}", part.broken_by))
    return [*made, ("all", "", f"{total:g}", "a release")]
