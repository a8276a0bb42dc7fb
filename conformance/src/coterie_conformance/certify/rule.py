"""Rules, and the requests that rules are written with.

A rule is a story of a few requests with a title and its source. Its expectation is not written down: it is what Apache
Kafka answered when the rule was recorded (`recording`). Texts with ``$`` and the forms with ``@`` are those of
`everything.question`; every version is one that 2.6.3 and 4.3.0 both serve, so that a rule asks each broker the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coterie.certify.question import Question, Value

Body = dict[str, Value]
TIMEOUT_MS = 30_000
REBALANCE_MS = 20_000


@dataclass(frozen=True, slots=True)
class CertifyRule:
    """``name`` is unique and stays; ``subject`` is a heading of the page; ``source`` a KIP or a class of Kafka."""

    name: str
    subject: str
    title: str
    source: str
    questions: tuple[Question, ...]


def ask(name: str, api: str, version: int, connection: str = "main", **body: Any) -> Question:
    """A request by its API's name, with the fields that differ from their defaults; ``connection`` names one of the
    story's."""
    return Question(name, api, version, body, connection)


def member(of: str) -> Value:
    """The member id that the response to the question ``of`` gave."""
    return {"@": "id", "of": f"member@{of}", "or": ""}


def producer(of: str) -> Value:
    """The producer id that the request named ``of`` received; -1 where it received none."""
    return {"@": "id", "of": f"producer@{of}", "or": -1}


def batch(*records: list[Any], **parts: Any) -> Value:
    """A records form of one batch; a record is [key, value, milliseconds from the story's start]."""
    return {"@": "records", "batches": [{"records": list(records or (["k", "v", -1000],)), **parts}]}


def topic(name: str = "$t", partitions: int = 1, **configs: str) -> tuple[Question, ...]:
    """A topic that every part of the broker knows; ``cleanup_policy`` stands for cleanup.policy."""
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    new = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
    return (
        ask(f"create {name}", "CreateTopics", 4, topics=[new], timeout_ms=TIMEOUT_MS),
        ask(f"look at {name}", "Metadata", 8, topics=[{"name": name}], allow_auto_topic_creation=False),
    )


def produce(name: str, records: Value, topic: str = "$t", **body: Any) -> Question:
    """Produce 8 to partition 0 with acks=all. ``records`` is a value of the recording's language, `batch` makes one;
    ``body`` replaces fields."""
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    plain: Body = {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": data}
    return ask(name, "Produce", 8, **plain | body)


def fetch(name: str, offset: int = 0, topic: str = "$t", **body: Any) -> Question:
    """Fetch 11 of partition 0 that does not wait."""
    partitions = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000}]
    plain: Body = {"max_wait_ms": 0, "min_bytes": 0, "topics": [{"topic": topic, "partitions": partitions}]}
    return ask(name, "Fetch", 11, **plain | body)


def join(name: str, of: str = "", version: int = 5, connection: str = "main", **body: Any) -> Question:
    """``of``: the question whose response gave the member id; "" for a member that has none yet."""
    plain: Body = {
        "group_id": "$g",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": REBALANCE_MS,
        "member_id": member(of) if of else "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": {"@": "subscription", "topics": ["$t"], "version": 1}}],
    }
    return ask(name, "JoinGroup", version, connection, **plain | body)


def sync(name: str, of: str, generation: int = 1, connection: str = "main", **body: Any) -> Question:
    """SyncGroup 3 of the member that joined as ``of``, which as leader assigns itself partition 0."""
    shares = [{"member_id": member(of), "assignment": {"@": "assignment", "topics": {"$t": [0]}}}]
    plain: Body = {"group_id": "$g", "generation_id": generation, "member_id": member(of), "assignments": shares}
    return ask(name, "SyncGroup", 3, connection, **plain | body)


def heartbeat(name: str, of: str, generation: int = 1, **body: Any) -> Question:
    """Heartbeat 3 of the member that joined as ``of``."""
    plain: Body = {"group_id": "$g", "generation_id": generation, "member_id": member(of)}
    return ask(name, "Heartbeat", 3, **plain | body)


def stable(group_instance_id: str | None = None, **body: Any) -> tuple[Question, ...]:
    """A group of one member in generation 1; the question "joined" gave its id. ``body``: of its JoinGroup."""
    if group_instance_id is not None:
        static: Body = {"group_instance_id": group_instance_id}
        return join("joined", **static, **body), sync("synced", "joined", **static)
    return join("first", **body), join("joined", "first", **body), sync("synced", "joined")


def commit(name: str, offset: int = 1, of: str = "", generation: int = -1, **body: Any) -> Question:
    """OffsetCommit 7 of partition 0; without ``of``, by no member."""
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}
    plain: Body = {
        "group_id": "$g",
        "generation_id_or_member_epoch": generation,
        "member_id": member(of) if of else "",
        "topics": [{"name": "$t", "partitions": [partition]}],
    }
    return ask(name, "OffsetCommit", 7, **plain | body)


def committed(name: str, **body: Any) -> Question:
    """OffsetFetch 7 of partition 0."""
    plain: Body = {"group_id": "$g", "topics": [{"name": "$t", "partition_indexes": [0]}]}
    return ask(name, "OffsetFetch", 7, **plain | body)


def group_state(name: str, group: str = "$g") -> Question:
    """DescribeGroups 4."""
    return ask(name, "DescribeGroups", 4, groups=[group])


def init(name: str, transactional_id: str | None = "$x", **body: Any) -> Question:
    """InitProducerId 3; ``transactional_id`` None: an idempotent producer."""
    return ask(
        name, "InitProducerId", 3, **{"transactional_id": transactional_id, "transaction_timeout_ms": 60_000} | body
    )


def in_transaction(api: str, name: str, of: str, version: int, epoch: int = 0, **body: Any) -> Question:
    """A request of a transactional producer that the question ``of`` gave its id."""
    plain: Body = {"transactional_id": "$x", "producer_id": producer(of), "producer_epoch": epoch}
    return ask(name, api, version, **plain | body)


def add_partitions(name: str, of: str, topic: str = "$t", epoch: int = 0) -> Question:
    """AddPartitionsToTxn 1 of partition 0, by the producer that `init` named ``of`` received."""
    topics = [{"name": topic, "partitions": [0]}]
    return in_transaction("AddPartitionsToTxn", name, of, 1, epoch, topics=topics)


def add_group(name: str, of: str, epoch: int = 0) -> Question:
    """AddOffsetsToTxn 1 of the story's group, by that producer."""
    return in_transaction("AddOffsetsToTxn", name, of, 1, epoch, group_id="$g")


def commit_in_transaction(name: str, of: str, offset: int = 1, epoch: int = 0, **body: Any) -> Question:
    """TxnOffsetCommit 3 of partition 0, by that producer."""
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": "$t", "partitions": [partition]}]
    return in_transaction("TxnOffsetCommit", name, of, 3, epoch, **{"group_id": "$g", "topics": topics} | body)


def end(name: str, of: str, *, commit: bool, epoch: int = 0) -> Question:
    """EndTxn 1 by that producer."""
    return in_transaction("EndTxn", name, of, 1, epoch, committed=commit)
