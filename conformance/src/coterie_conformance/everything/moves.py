"""Random stories: sequences that build state (`MOVES`), one after the other, with questions about it in between.

Every question starts right; some get a field changed to another class of value, so that a sequence goes wrong anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from coterie.certify.question import API_BY_NAME, READING, Question, Step, Story, Value, numbered
from coterie_conformance.everything.administration import ADMINISTRATION_MOVES
from coterie_conformance.everything.beside import cases_beside, with_another
from coterie_conformance.everything.client_moves import CLIENT_MOVES
from coterie_conformance.everything.generated.domain import UNKNOWN_UUID, Names
from coterie_conformance.everything.generated.pieces import Common, piece
from coterie_conformance.everything.generated.systematic import cases, changed, right
from coterie_conformance.everything.share_moves import SHARE_MOVES
from coterie_conformance.everything.topic_moves import PRODUCED, PRODUCER, TOPIC_MOVES

CHANGED = 0.2  # of the questions
STEADY = 0.5  # of the moves: each api in one version
BESIDE = 0.1  # of the questions: with another element in one of their lists
NEWEST = 0.2  # of the moves: each api in its newest version, as clients ask
# Version 0 of JoinGroup would wait for a whole session; of the others it is about offsets that no later version has.
FROM_1 = frozenset({"JoinGroup", "OffsetCommit", "OffsetFetch"})
TXN_BATCH = {"transactional": True, "epoch": 0}


def _records(**parts: Value) -> Value:
    return {"@": "records", "batches": [{"records": [["k{n}", "v", -1000], [None, "w", -500]]} | parts]}


def _in_session(epoch: int, **parts: Value) -> dict[str, Value]:
    """A Fetch in the session that the move's first one opened; of no new topics, where none are named."""
    session = {"@": "id", "of": "session@fetch{n}.0", "or": 0}
    return {"topics": [], "session_id": session, "session_epoch": epoch} | parts


def _named(topic: str) -> dict[str, Value]:
    return {"topic": topic, "topic_id": UNKNOWN_UUID if topic == "$nowhere" else {"@": "topic id", "of": topic}}


def _fetched(topic: str, partition: int) -> dict[str, Value]:
    partitions = [{"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1_000_000}]
    return _named(topic) | {"partitions": partitions}


def _forgotten(topic: str, partition: int) -> dict[str, Value]:
    return _named(topic) | {"partitions": [partition]}


def _beat(member: str, epoch: int, **parts: Value) -> dict[str, Value]:
    return {"group_id": "$c{n}", "member_id": member, "member_epoch": epoch} | parts


MOVES: dict[str, tuple[float, list[Step]]] = {
    "topic": (
        1,
        [
            ("CreateTopics", {"topics.name": "$n{n}", "topics.num_partitions": 2}),
            ("Metadata", {"topics.name": "$n{n}"}),
        ],
    ),
    "plain records": (3, [("Produce", {PRODUCED: _records()}), ("Fetch", {})]),
    "compressed": (2, [("Produce", {PRODUCED: _records(codec=c)}) for c in (1, 2, 3, 4)] + [("Fetch", {})]),
    "compacted": (
        2,
        [
            (
                "CreateTopics",
                {"topics.name": "$n{n}", "topics.configs.name": "cleanup.policy", "topics.configs.value": "compact"},
            ),
            (
                "Produce",
                {
                    "topic_data.name": "$n{n}",
                    "topic_data.topic_id": {"@": "topic id", "of": "$n{n}"},
                    PRODUCED: _records(),
                },
            ),
            ("Fetch", {"topics.topic": "$n{n}", "topics.topic_id": {"@": "topic id", "of": "$n{n}"}}),
        ],
    ),
    "idempotent": (
        3,
        [
            ("InitProducerId", {"transactional_id": None}),
            *(("Produce", {PRODUCED: _records(producer=PRODUCER, epoch=0, sequence=s)}) for s in (0, 2, 2, 4, 7, 0)),
            ("DescribeProducers", {}),
            ("Fetch", {}),
        ],
    ),
    "idempotent again": (
        2,
        [
            ("InitProducerId", {"transactional_id": None, "producer_id": 0, "producer_epoch": 0}),
            ("Produce", {PRODUCED: _records(producer=PRODUCER, epoch=0, sequence=0)}),
            ("InitProducerId", {"transactional_id": None, "producer_id": PRODUCER, "producer_epoch": 0}),
            ("Produce", {PRODUCED: _records(producer=PRODUCER, epoch=0, sequence=0)}),
            ("Produce", {PRODUCED: _records(producer=PRODUCER, epoch=1, sequence=0)}),
        ],
    ),
    "transaction": (
        4,
        [
            ("InitProducerId", {"transactional_id": "$x{n}"}),
            ("AddPartitionsToTxn", {"transactional_id": "$x{n}"}),
            ("Produce", {"transactional_id": "$x{n}", PRODUCED: _records(producer=PRODUCER, sequence=0, **TXN_BATCH)}),
            ("ListOffsets", {"isolation_level": 1}),
            ("AddOffsetsToTxn", {"transactional_id": "$x{n}", "group_id": "$g{n}"}),
            (
                "TxnOffsetCommit",
                {
                    "transactional_id": "$x{n}",
                    "group_id": "$g{n}",
                    "generation_id_or_member_epoch": -1,
                    "member_id": "",
                },
            ),
            ("DescribeTransactions", {"transactional_ids": ["$x{n}"]}),
            ("EndTxn", {"transactional_id": "$x{n}"}),
            ("OffsetFetch", {"require_stable": True, "groups.group_id": "$g{n}", "group_id": "$g{n}"}),
            ("Fetch", {"isolation_level": 1}),
            (
                "TxnOffsetCommit",
                {
                    "transactional_id": "$x{n}",
                    "group_id": "$g{n}",
                    "generation_id_or_member_epoch": -1,
                    "member_id": "",
                },
            ),
            ("InitProducerId", {"transactional_id": "$x{n}", "producer_id": PRODUCER, "producer_epoch": 0}),
            ("EndTxn", {"transactional_id": "$x{n}"}),
        ],
    ),
    "group": (
        4,
        [
            ("JoinGroup", {"group_id": "$g{n}", "member_id": ""}),
            ("JoinGroup", {"group_id": "$g{n}", "member_id": {"@": "id", "of": "member@joingroup{n}.0"}}),
            *(
                (api, {"group_id": "$g{n}", "member_id": {"@": "id", "of": "member@joingroup{n}.0"}})
                for api in ("SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch")
            ),
            ("DescribeGroups", {"groups": ["$g{n}"]}),
            ("OffsetDelete", {"group_id": "$g{n}"}),
            ("DeleteGroups", {"groups_names": ["$g{n}"]}),
            (
                "LeaveGroup",
                {
                    "group_id": "$g{n}",
                    "member_id": {"@": "id", "of": "member@joingroup{n}.0"},
                    "members.member_id": {"@": "id", "of": "member@joingroup{n}.0"},
                },
            ),
            ("DescribeGroups", {"groups": ["$g{n}"]}),
            ("DeleteGroups", {"groups_names": ["$g{n}"]}),
            ("DescribeGroups", {"groups": ["$g{n}"]}),
        ],
    ),
    "subscription cut short": (
        1,
        [
            (
                "JoinGroup",
                {
                    "group_id": "$g{n}",
                    "member_id": "",
                    "protocols.metadata": {"@": "subscription", "topics": ["$t"], "version": 0, "claims": 1},
                },
            ),
            (
                "JoinGroup",
                {
                    "group_id": "$g{n}",
                    "member_id": {"@": "id", "of": "member@joingroup{n}.0"},
                    "protocols.metadata": {"@": "subscription", "topics": ["$t"], "version": 0, "claims": 1},
                },
            ),
            ("SyncGroup", {"group_id": "$g{n}", "member_id": {"@": "id", "of": "member@joingroup{n}.0"}}),
            (
                "OffsetCommit",
                {"group_id": "$g{n}", "member_id": {"@": "id", "of": "member@joingroup{n}.0"}, "topics.name": "$u"},
            ),
            ("OffsetDelete", {"group_id": "$g{n}", "topics.name": "$u"}),
            ("OffsetDelete", {"group_id": "$g{n}", "topics.name": "$t"}),
        ],
    ),
    "offsets": (
        2,
        [
            ("OffsetCommit", {"group_id": "$o{n}", "generation_id_or_member_epoch": -1, "member_id": ""}),
            ("OffsetFetch", {"group_id": "$o{n}", "groups.group_id": "$o{n}"}),
            ("OffsetDelete", {"group_id": "$o{n}"}),
            ("DeleteGroups", {"groups_names": ["$o{n}"]}),
            ("OffsetFetch", {"group_id": "$o{n}", "groups.group_id": "$o{n}"}),
        ],
    ),
    "deleted records": (
        1,
        [
            ("DeleteRecords", {"topics.partitions.offset": 2}),
            ("ListOffsets", {"topics.partitions.timestamp": -2}),
            ("Fetch", {}),
        ],
    ),
    "more partitions": (1, [("CreatePartitions", {"topics.count": 4}), ("Metadata", {})]),
    "settings": (
        2,
        [
            (
                "IncrementalAlterConfigs",
                {"resources.configs.name": "cleanup.policy", "resources.configs.value": "compact"},
            ),
            (
                "IncrementalAlterConfigs",
                {
                    "resources.configs.name": "cleanup.policy",
                    "resources.configs.value": "delete",
                    "resources.configs.config_operation": 2,
                },
            ),
            ("DescribeConfigs", {"resources.configuration_keys": ["cleanup.policy"]}),
            ("AlterConfigs", {}),
            (
                "DescribeConfigs",
                {"resources.configuration_keys": ["retention.ms", "max.message.bytes"], "include_synonyms": True},
            ),
        ],
    ),
    "deleted topic": (0.5, [("DeleteTopics", {"topic_names": ["$t"]}), ("Metadata", {})]),
    "fetch session": (
        3,
        [
            ("Fetch", {"session_epoch": 0}),
            ("Fetch", _in_session(1)),
            ("Produce", {"topic_data.name": "$t", "topic_data.topic_id": {"@": "topic id", "of": "$t"}}),
            ("Fetch", _in_session(2)),
            ("Fetch", _in_session(3, topics=[_fetched("$u", 1), _fetched("$u", 0)])),
            ("Fetch", _in_session(4)),
            ("DeleteRecords", {"topics.name": "$t"}),
            ("Fetch", _in_session(5, forgotten_topics_data=[_forgotten("$u", 1), _forgotten("$nowhere", 0)])),
            ("Fetch", _in_session(6, topics=[_fetched("$nowhere", 0), _fetched("$t", 9)])),
            ("Fetch", _in_session(5)),
            ("Fetch", _in_session(7)),
            ("Fetch", _in_session(8, forgotten_topics_data=[_forgotten("$t", 0), _forgotten("$t", 9)])),
            ("Fetch", _in_session(-1)),
            ("Fetch", _in_session(9)),
        ],
    ),
    "consumer": (
        4,
        [
            ("ConsumerGroupHeartbeat", _beat("$m", 0, topic_partitions=[])),
            ("ConsumerGroupDescribe", {"group_ids": ["$c{n}"]}),
            ("ConsumerGroupHeartbeat", _beat("$m", 2)),
            (
                "OffsetCommit",
                {"group_id": "$c{n}", "member_id": "$m", "generation_id_or_member_epoch": 2, "group_instance_id": None},
            ),
            ("OffsetFetch", {"groups.group_id": "$c{n}", "groups.member_id": "$m", "groups.member_epoch": 2}),
            ("ConsumerGroupHeartbeat", _beat("$l", 0, topic_partitions=[])),
            ("ConsumerGroupHeartbeat", _beat("$m", 2)),
            ("DescribeGroups", {"groups": ["$c{n}"]}),
            ("ListGroups", {"types_filter": ["consumer"], "states_filter": []}),
            ("ConsumerGroupHeartbeat", _beat("$l", -1)),
            ("ConsumerGroupHeartbeat", _beat("$s", 0, instance_id="$i", topic_partitions=[])),
            ("ConsumerGroupHeartbeat", _beat("$s", -2, instance_id="$i")),
            ("ConsumerGroupDescribe", {"group_ids": ["$c{n}"]}),
            ("DeleteGroups", {"groups_names": ["$c{n}"]}),
            ("ConsumerGroupHeartbeat", _beat("$r", 0, instance_id="$i", topic_partitions=[])),
            ("ConsumerGroupHeartbeat", _beat("$m", -1)),
            ("ConsumerGroupHeartbeat", _beat("$r", -1, instance_id="$i")),
            ("ConsumerGroupDescribe", {"group_ids": ["$c{n}"]}),
            ("OffsetDelete", {"group_id": "$c{n}"}),
            ("DeleteGroups", {"groups_names": ["$c{n}"]}),
        ],
    ),
    **ADMINISTRATION_MOVES,
    **TOPIC_MOVES,
    **CLIENT_MOVES,
    **SHARE_MOVES,
}


@dataclass(slots=True)
class _StoryMaker:
    random: random.Random
    common: Common
    count: int = 0
    open: list[str] = field(default_factory=list)
    apis: tuple[str, ...] = ()  # only moves with one of them, where there are any
    steady: dict[str, int] | None = None  # of the move: the version of each api that it has asked; None: any

    def version(self, api: str) -> int:
        versions = self.common[api]
        first = max(versions.first, 1) if api in FROM_1 else versions.first
        version = self.random.randint(min(first, versions.last), versions.last)
        return version if self.steady is None else self.steady.setdefault(api, version)

    def question(self, api: str, parts: dict[str, Value], n: int) -> Question:
        version = self.version(api)
        names = Names(
            topic=self.random.choice(["$t", "$t", "$t", "$u"]),
            group=f"$g{n}",
            member=f"joingroup{n}.0",
            txn=f"$x{n}",
            producer=f"init{n}",
        )
        body = right(api, API_BY_NAME[api].request, version, names)
        for path, value in parts.items():
            if _carried(api, version, path, value):
                body = changed(body, path, numbered(value, n))
        covers = ("", "right")
        if self.random.random() < CHANGED:
            covers, other = self.random.choice(list(cases(api, version, names)))
            path = covers[0]
            if path:
                body = changed(body, path, _at(other, path))
        elif self.random.random() < BESIDE and (beside := list(cases_beside(api, version, names))):
            case = self.random.choice(beside)
            several = with_another(body, case)
            if several is not None:
                covers, body = case[0], numbered(several, n)
        name = f"{'init' if api == 'InitProducerId' else api.lower()}{n}"
        self.count += 1
        return Question(f"{name}.{self.count}", api, version, body, covers=covers)

    def move(self, n: int) -> Iterator[Question]:
        about = [name for name, (_, steps) in MOVES.items() if {api for api, _ in steps} & {*self.apis}]
        names = about or list(MOVES)
        kind = self.random.choices(names, [MOVES[name][0] for name in names])[0]
        firsts = dict[str, int]()
        chance = self.random.random()
        self.steady = {} if chance < STEADY else None
        if chance < NEWEST:
            self.steady = {api: versions.last for api, versions in self.common.items()}
        for api, parts in MOVES[kind][1]:
            if api not in self.common:
                continue
            question = self.question(api, parts, n)
            stem = question.name.partition(".")[0]
            count = firsts[stem] = firsts.get(stem, -1) + 1
            first = stem if api == "InitProducerId" else f"{stem}.0"
            yield _renamed(question, first if count == 0 else f"{stem}.{count}")
            if api == "CreateTopics":  # an old version does not return the topic's id
                body: dict[str, Value] = {"topics": [{"name": f"$n{n}"}], "allow_auto_topic_creation": False}
                yield Question(f"ids{n}.{self.count}", "Metadata", self.common["Metadata"].last, body)
            if self.random.random() < 0.15:
                other = self.random.choice([a for a in self.common if a in READING])
                yield _renamed(self.question(other, {}, n), f"look{n}.{self.count}")


def _renamed(question: Question, name: str) -> Question:
    return Question(name, question.api, question.version, question.body, question.connection, question.covers)


def _carried(api: str, version: int, path: str, value: Value) -> bool:
    """Whether the whole path stands in this version, and may be null where the value is."""
    shape = API_BY_NAME[api].request
    for name in path.split("."):
        spec = next((s for s in shape.fields if s.name == name and version in s.versions), None)
        if spec is None or (value is None and name == path.rpartition(".")[2] and version not in spec.nullable):
            return False
        element = spec.kind.element
        inner = element.shape if element is not None else spec.kind.shape
        shape = inner if inner is not None else shape  # type: ignore[assignment]
    return True


def _at(body: Value, path: str) -> Value:
    for name in path.split("."):
        if isinstance(body, list):
            body = body[0] if body else {}
        if not isinstance(body, dict) or name not in body:
            return "<default>"
        body = body[name]
    return body


def random_story(seed: int, common: Common, moves: int = 6, apis: tuple[str, ...] = ()) -> Story:
    """The story of that seed: two topics with records, then so many moves, of those with one of these ``apis`` where there are
    any."""
    maker = _StoryMaker(random.Random(seed), common, apis=apis)
    story = Story(f"seed {seed}")
    for topic in ("$t", "$u"):
        for name in ("topic", "records"):
            story.questions += piece(name, Names(topic=topic), common)
    for n in range(moves):
        story.questions += maker.move(n)
    return story
