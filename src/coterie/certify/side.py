"""One broker, as one story sees it: its connections, the names and ids that stand behind the symbols.

A response is JSON, or one of the words in `OUTCOMES`. The prefix is as long on every side, so that sizes agree.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.certify import responses
from coterie.certify.batches import describe_bytes, encode_described
from coterie.certify.question import API_BY_NAME, Question, Story, Value, message_of, texts_in
from coterie.certify.responses import Tree
from coterie.certify.settling import settle, until_the_coordinator_knows
from coterie.client.connection.connection import Connection
from coterie.client.errors import KafkaError
from coterie.client.security import PLAINTEXT, Security
from coterie.wire.declaration import Struct
from coterie.wire.errors import ErrorCode
from coterie.wire.fields import FieldType
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.logs.fetch import FetchRequest, FetchResponse
from coterie.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

SWEEP_VERSION = 4
SESSIONS_FROM, FINAL_EPOCH = 7, -1
RESPONSE_S = 15.0
NO_RESPONSE_S = (
    3600.0  # of a request without a response: one that is overdue would end its connection, with what waits there
)
CLOSED, SILENT, LATE = "connection closed", "no answer", "no answer in time"
# Ids that a response gives, by api and field; the symbol is KIND@QUESTION.
LEARNED = {
    ("InitProducerId", "producer_id"): "producer",
    ("InitProducerId", "producer_epoch"): "epoch",
    ("EndTxn", "producer_epoch"): "epoch",
    ("JoinGroup", "member_id"): "member",
    ("ConsumerGroupHeartbeat", "member_id"): "member",
    ("Fetch", "session_id"): "session",
    ("DescribeLogDirs", "log_dir"): "folder",
    ("DescribeCluster", "cluster_id"): "cluster",
}
# Lists of everything that a broker has: what is neither this story's nor requested is left out.
WHOLE_BROKER = frozenset(
    {
        ("ListGroups", "groups"),
        ("Metadata", "topics"),
        ("ListTransactions", "transaction_states"),
        ("DescribeLogDirs", "topics"),
        ("DescribeTopicPartitions", "topics"),
        ("ListConfigResources", "config_resources"),
        ("ListPartitionReassignments", "topics"),
        ("ElectLeaders", "replica_election_results"),
        ("DescribeClientQuotas", "entries"),
        ("DescribeUserScramCredentials", "results"),
    }
)
UNNAMED = frozenset({"DescribeUserScramCredentials"})  # the name "" is a question's own, also where it leaves it out
CHANGING_TOPICS = frozenset({"CreateTopics", "CreatePartitions", "DeleteTopics"})
INTERNAL_TOPICS = ("state_changelog_topics", "repartition_source_topics")  # of a subtopology
# These read topics as the group coordinator knows them.
ASSIGNING = frozenset(
    {
        *("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "AlterShareGroupOffsets"),
        *("DescribeShareGroupOffsets", "DeleteShareGroupOffsets"),
    }
)
SUBSCRIBED = ("$t", "$u")  # the topics of which consumers get partitions
NEAR_MS = 3_600_000
_FRESH = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class StorySide:
    """``prefix`` replaces ``$``; ``base_ms`` is the story's start, the same on both sides. The broker's own id, ``node_id``,
    is 1 in every response, and its ``peers`` are in none. ``others``: where connections of some names go, and for whom."""

    def __init__(
        self,
        name: str,
        address: tuple[str, int],
        prefix: str,
        base_ms: int,
        node_id: int = 1,
        security: Security = PLAINTEXT,
        peers: frozenset[int] = frozenset(),
        others: Mapping[str, tuple[tuple[str, int], Security]] | None = None,
    ) -> None:
        self.name, self.address, self.prefix, self.base_ms = name, address, prefix, base_ms
        self._peers = peers
        self._node_id, self._security = node_id, security
        self._others = others or {}
        self._ports = {address[1], *(other[1] for other, _ in self._others.values())}
        self._connections: dict[str, Connection] = {}
        self._real: dict[str, Any] = {}
        self._symbol: dict[Any, str] = {}
        self._sessions: set[int] = set()
        self._asked_times: dict[int, str] = {}
        self._changes_topics = False  # since the last request of `ASSIGNING`

    async def connection(self, name: str) -> Connection:
        """The connection of that name, opened at its first use and after it was closed."""
        known = self._connections.get(name)
        if known is None or known.closed:
            address, security = self._others.get(name, (self.address, self._security))
            known = self._connections[name] = await Connection.connect(*address, self.real(name), RESPONSE_S, security)
        return known

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def sweep(self, story: Story) -> None:
        """Deletes the story's topics and ends its fetch sessions, so that a long run does not fill the broker; then closes."""
        names = [self.real(name) for name in sorted({name for q in story.questions for name in _topics_made_by(q)})]
        with contextlib.suppress(KafkaError):
            if names:
                connection = await self.connection("sweep")
                request = DeleteTopicsRequest(topic_names=names, timeout_ms=5000)
                await connection.request_version(request, DeleteTopicsResponse, SWEEP_VERSION, RESPONSE_S)
            for session_id in self._sessions:
                await self._end_session(session_id)
        self.close()

    async def _end_session(self, session_id: int) -> None:
        """Raises KafkaError."""
        connection = await self.connection("sweep")
        last = FetchRequest(session_id=session_id, session_epoch=FINAL_EPOCH)
        await connection.request_version(last, FetchResponse, SESSIONS_FROM, RESPONSE_S)

    async def _end_session_of_repeated(self, question: Question) -> None:
        """A broker has room for so many fetch sessions, and a question that is repeated for seconds would fill it: the session
        that it began ends first. Raises KafkaError."""
        symbol = f"session@{question.name}"
        session_id = self._real.get(symbol)
        if session_id is not None and self._symbol.get(("session", session_id)) == symbol:
            await self._end_session(session_id)
            self._sessions.discard(session_id)
            del self._real[symbol], self._symbol["session", session_id]

    async def ask(self, question: Question) -> Tree:
        """The response, with symbols for ids. Raises KafkaError without a broker at the address."""
        await self._end_session_of_repeated(question)
        request, connection = message_of(question, self.resolve), await self.connection(question.connection)
        kind = API_BY_NAME[question.api].response
        if question.api in ASSIGNING and self._changes_topics:
            await until_the_coordinator_knows(connection, [self.real(name) for name in SUBSCRIBED])
            self._changes_topics = False
        unacknowledged = question.api == "Produce" and not question.body.get("acks", 0)
        response_s = NO_RESPONSE_S if unacknowledged else RESPONSE_S
        responding = asyncio.ensure_future(connection.request_version(request, kind, question.version, response_s))
        if unacknowledged:
            # acks 0 has no response: the next request shows whether the connection is still open.
            following = asyncio.ensure_future(
                connection.request_version(ApiVersionsRequest(), ApiVersionsResponse, 0, RESPONSE_S)
            )
            await asyncio.wait([responding, following], return_when=asyncio.FIRST_COMPLETED)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            if not responding.done():
                responding.cancel()
                return SILENT
        try:
            response: Struct = await responding
            await settle(connection, request, question.version, response)
        except KafkaError as error:
            connection.close()
            return LATE if error.code == ErrorCode.REQUEST_TIMED_OUT else CLOSED
        self._changes_topics |= question.api in CHANGING_TOPICS
        self._learn(question, response, question.version, set())
        return self._tree(question, response, question.version, frozenset(texts_in(question.body)))

    # -- symbols to what the wire carries -------------------------------------------------------------------------------

    def real(self, text: str) -> str:
        return text.replace("$", self.prefix)

    def resolve(self, kind: FieldType, value: Value) -> Any:
        """A text, number or form (see `question`) as the kind wants it."""
        if isinstance(value, dict):
            return self._form(value, "" if kind.name == "string" else -1)
        if kind.name == "string":
            return self.real(value)
        return b"" if value == "" and kind.name in ("bytes", "records") else value

    def _form(self, form: dict[str, Value], unknown: str | int) -> Any:
        match form["@"]:
            case "id":
                return self._real.get(form["of"], form.get("or", unknown))
            case "topic id":
                return self._real.get(f"topic id of {form['of']}", bytes(16))
            case "now":
                self._asked_times[self.base_ms + form["ms"]] = f"start{form['ms']:+d} ms"
                return self.base_ms + form["ms"]
            case "hex":
                return bytes.fromhex(form["of"])
            case "text":
                return self.real(form.get("after", "") + form["of"] * form["times"])
            case "subscription":
                version = form.get("version", 3)
                data = encode_subscription([self.real(t) for t in form["topics"]], version=version)
                claims: Any = form.get("claims", version)
                return data[:1] + bytes([claims]) + data[2:]
            case "assignment":
                return encode_assignment({self.real(t): p for t, p in form["topics"].items()})
            case "records":
                return b"".join(self._batch(batch) for batch in form["batches"])
        raise AssertionError(f"no such form: {form}")

    def _batch(self, described: dict[str, Any]) -> bytes:
        for record in described.get("records", ()):
            delta = record[2] if len(record) > 2 else 0
            self._asked_times[self.base_ms + delta] = f"start{delta:+d} ms"
        return encode_described(described, self.base_ms, lambda v: int(self._form(v, -1) if isinstance(v, dict) else v))

    # -- what the wire carried to symbols -------------------------------------------------------------------------------

    def _learn(self, question: Question, value: Struct, version: int, named: set[str]) -> None:
        """Names the ids of a response, before anything is written with them. ``named``: the kinds that it has given already: a
        JoinGroup's response has the member's own id, and then the ids of all."""
        topic = topic_id = None
        for spec, item in responses.fields_of(value, version):
            kind = LEARNED.get((question.api, spec.name))
            kind = None if kind in named or _is_chosen(question) else kind
            if (kind is not None and item not in (-1, 0, "")) or (
                kind == "producer" and item == 0 and not _failed(value)
            ):
                self._name(f"{kind}@{question.name}", item)
                named.add(str(kind))
            if spec.name in ("name", "topic", "topic_name") and isinstance(item, str):
                topic = item
            if spec.name == "topic_id" and item != bytes(16):
                topic_id = item
            for one in item if isinstance(item, list) else (item,):
                if isinstance(one, Struct):
                    self._learn(question, one, version, named)
        if topic and topic_id and not _failed(value):  # a refused DeleteTopics repeats the request
            name = f"topic id of {self._text(topic)}"
            self._real[name] = topic_id
            self._symbol.setdefault(topic_id, name)

    def _name(self, symbol: str, value: Any) -> None:
        if symbol.startswith("session@"):
            self._sessions.add(value)
        self._real[symbol] = value
        self._symbol.setdefault((symbol.partition("@")[0], value), symbol)

    def _tree(self, question: Question, value: Struct, version: int, requested: frozenset[str]) -> Tree:
        tree: dict[str, Tree] = {}
        for spec, item in responses.fields_of(value, version):
            if isinstance(item, list):
                parts = [
                    self._part(question, spec.name, one, version, requested)
                    for one in item
                    if not (self._peers and self._is_peer(spec.name, one))
                ]
                if (question.api, spec.name) in WHOLE_BROKER:
                    names = [(responses.element_name(part), part) for part in parts]
                    own = requested | {""} if question.api in UNNAMED else requested
                    parts = [part for name, part in names if name.startswith("$") or name.partition(":")[0] in own]
                tree[spec.name] = parts
            else:
                tree[spec.name] = self._part(question, spec.name, item, version, requested)
        return tree

    def _part(self, question: Question, name: str, item: Any, version: int, requested: frozenset[str]) -> Tree:
        if isinstance(item, Struct):
            return self._tree(question, item, version, requested)
        if item is None or isinstance(item, bool | float):
            return item
        if isinstance(item, bytes):
            return self._bytes(name, item)
        return self._number(name, item) if isinstance(item, int) else self._text_field(name, item)

    def _is_peer(self, name: str, item: Any) -> bool:
        """Whether an element of that list is another broker, or its id."""
        if name in ("brokers", "nodes"):
            item = next((getattr(item, field) for field in ("node_id", "broker_id") if hasattr(item, field)), None)
        elif name not in responses.REPLICAS:
            return False
        return item in self._peers

    def _bytes(self, name: str, item: bytes) -> Tree:
        if name == "records":
            return describe_bytes(item, lambda i: self._symbol.get(("producer", i), i), self._time)
        if len(item) == 16 and "id" in name:
            return "none" if item == bytes(16) else self._symbol.get(item, f"id {uuid.UUID(bytes=item)}"[:3] + "?")
        return item.decode("latin-1").replace(self.prefix, "$")

    def _number(self, name: str, item: int) -> Tree:
        if responses.ERRORS.search(name):
            return responses.error_name(item)
        if name in responses.PORTS and item in self._ports:
            return "its port"
        if (name in responses.NODES or name in responses.REPLICAS) and item == self._node_id:
            return 1
        if name in responses.PRODUCERS:
            return self._symbol.get(("producer", item), item)
        if name in responses.SESSIONS:
            return self._symbol.get(("session", item), item)
        if name in responses.BYTES_ON_DISK or (name in responses.SUBSCRIPTIONS and item):
            return "some" if item > 0 or name in responses.SUBSCRIPTIONS else item
        if responses.TIMES.search(name) and name not in responses.NOT_TIMES:
            return self._time(item)
        return item

    def _time(self, item: int) -> Tree:
        if item in self._asked_times:
            return self._asked_times[item]
        return "about now" if abs(item - time.time() * 1000) < NEAR_MS else item

    def _text_field(self, name: str, item: str) -> Tree:
        if name in responses.TEXTS:
            return "a text" if item else item
        if name in responses.CLUSTERS and item:
            return "its cluster"
        if name in responses.FOLDERS and item:
            return "its folder"
        return self._text(item)

    def _text(self, item: str) -> str:
        symbol = self._symbol.get(("member", item))
        return symbol if symbol is not None else _FRESH.sub("<fresh>", item.replace(self.prefix, "$"))


def _topics_made_by(question: Question) -> Iterator[str]:
    """The story's own topics that the question creates: those of CreateTopics, and the internal ones of a topology."""
    topics = question.body.get("topics") or () if question.api == "CreateTopics" else []
    if question.api == "StreamsGroupHeartbeat":
        subtopologies = (question.body.get("topology") or {}).get("subtopologies") or ()
        topics = [t for sub in subtopologies for name in INTERNAL_TOPICS for t in sub.get(name) or ()]
    for topic in topics:
        yield from (name for name in texts_in(topic.get("name")) if name[:1] == "$" and "/" not in name)


def _is_chosen(question: Question) -> bool:
    """Whether the member chose its id itself, so that it is the same on every broker."""
    return question.api == "ConsumerGroupHeartbeat" and bool(question.body.get("member_id"))


def _failed(value: Struct) -> bool:
    return bool(getattr(value, "error_code", 0))
