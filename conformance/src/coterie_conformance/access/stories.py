"""A story for each API, version and rule: an administrator makes what is asked about and the ACLs, a user asks, the ACLs go.

A rule is about one thing that the API needs, while the user has the others: none, one that allows, one that denies beside it,
for a prefix, for all names, for another host and for the user's. Each is asked about resources that exist and about others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from coterie.authorizer.acls import AclOperation, AclResourceType, PatternType, Permission
from coterie.certify.question import API_BY_NAME, Question, Story, Value
from coterie.wire.fields import Versions
from coterie_conformance.everything.generated.domain import Names
from coterie_conformance.everything.generated.pieces import BEFORE, FIXTURES, TOPIC, piece
from coterie_conformance.everything.generated.systematic import right

ALICE = "alice"  # the name of her connection; her user's is the story's
HOST, OTHER_HOST = "127.0.0.1", "10.9.8.7"
_O, _R = AclOperation, AclResourceType
Need = tuple[AclOperation, AclResourceType]
Common = Mapping[str, Versions]
_ANY: dict[str, Value] = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
_READ_GROUP, _WRITE_ID, _DESCRIBE_TOPIC = (_O.READ, _R.GROUP), (_O.WRITE, _R.TRANSACTIONAL_ID), (_O.DESCRIBE, _R.TOPIC)
_CLUSTER: dict[str, AclOperation] = {
    **dict.fromkeys(
        (
            "AlterReplicaLogDirs",
            "ElectLeaders",
            "AlterPartitionReassignments",
            "CreateAcls",
            "DeleteAcls",
            "AlterUserScramCredentials",
            "UpdateFeatures",
            "UnregisterBroker",
            "WriteTxnMarkers",
        ),
        _O.ALTER,
    ),
    **dict.fromkeys(
        (
            "DescribeAcls",
            "DescribeLogDirs",
            "ListPartitionReassignments",
            "DescribeUserScramCredentials",
            "DescribeCluster",
        ),
        _O.DESCRIBE,
    ),
    **dict.fromkeys(("DescribeClientQuotas", "ListConfigResources"), _O.DESCRIBE_CONFIGS),
    "AlterClientQuotas": _O.ALTER_CONFIGS,
}
NEEDS: dict[str, tuple[Need, ...]] = {
    **{api: ((operation, _R.CLUSTER),) for api, operation in _CLUSTER.items()},
    "Produce": ((_O.WRITE, _R.TOPIC),),
    "Fetch": ((_O.READ, _R.TOPIC),),
    "ListOffsets": (_DESCRIBE_TOPIC,),
    "OffsetForLeaderEpoch": (_DESCRIBE_TOPIC, (_O.CLUSTER_ACTION, _R.CLUSTER)),
    "Metadata": (_DESCRIBE_TOPIC, (_O.CREATE, _R.TOPIC), (_O.CREATE, _R.CLUSTER)),
    "DescribeTopicPartitions": (_DESCRIBE_TOPIC,),
    "FindCoordinator": ((_O.DESCRIBE, _R.GROUP),),
    **dict.fromkeys(("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"), (_READ_GROUP,)),
    "OffsetCommit": (_READ_GROUP, (_O.READ, _R.TOPIC)),
    "OffsetFetch": ((_O.DESCRIBE, _R.GROUP), _DESCRIBE_TOPIC),
    "OffsetDelete": ((_O.DELETE, _R.GROUP), (_O.READ, _R.TOPIC)),
    "DescribeGroups": ((_O.DESCRIBE, _R.GROUP),),
    "ListGroups": ((_O.DESCRIBE, _R.GROUP), (_O.DESCRIBE, _R.CLUSTER)),
    "DeleteGroups": ((_O.DELETE, _R.GROUP),),
    "CreateTopics": ((_O.CREATE, _R.TOPIC), (_O.CREATE, _R.CLUSTER), (_O.DESCRIBE_CONFIGS, _R.TOPIC)),
    "DeleteTopics": ((_O.DELETE, _R.TOPIC), _DESCRIBE_TOPIC, (_O.DELETE, _R.CLUSTER)),
    "DeleteRecords": ((_O.DELETE, _R.TOPIC),),
    "CreatePartitions": ((_O.ALTER, _R.TOPIC),),
    "InitProducerId": (_WRITE_ID, (_O.WRITE, _R.TOPIC), (_O.IDEMPOTENT_WRITE, _R.CLUSTER)),
    "AddPartitionsToTxn": (_WRITE_ID, (_O.WRITE, _R.TOPIC), (_O.CLUSTER_ACTION, _R.CLUSTER)),
    "AddOffsetsToTxn": (_WRITE_ID, _READ_GROUP),
    "EndTxn": (_WRITE_ID,),
    "TxnOffsetCommit": (_WRITE_ID, _READ_GROUP, (_O.READ, _R.TOPIC)),
    "DescribeConfigs": ((_O.DESCRIBE_CONFIGS, _R.TOPIC), (_O.ALTER_CONFIGS, _R.TOPIC)),
    "AlterConfigs": ((_O.ALTER_CONFIGS, _R.TOPIC),),
    "IncrementalAlterConfigs": ((_O.ALTER_CONFIGS, _R.TOPIC),),
    "DescribeProducers": ((_O.READ, _R.TOPIC),),
    "DescribeTransactions": ((_O.DESCRIBE, _R.TRANSACTIONAL_ID), _DESCRIBE_TOPIC),
    "ListTransactions": ((_O.DESCRIBE, _R.TRANSACTIONAL_ID),),
    "ConsumerGroupHeartbeat": (_READ_GROUP, _DESCRIBE_TOPIC),
    "ConsumerGroupDescribe": ((_O.DESCRIBE, _R.GROUP), _DESCRIBE_TOPIC),
    "ApiVersions": (_DESCRIBE_TOPIC,),  # which needs nothing
}
_OF_NO_TOPIC = frozenset({"FindCoordinator", "DescribeAcls", "CreateAcls", "DeleteAcls", "ApiVersions", *_CLUSTER})
ABSENT = Names("$nt", "$ng", "join", "$nx", "init", new_topic="$nn")


@dataclass(frozen=True, slots=True)
class AclRule:
    """What is changed of an entry that allows: none, another permission, a prefix, every name, a host."""

    name: str
    exists: bool = True
    permission: Permission = Permission.ALLOW
    operation: AclOperation | None = None
    pattern: PatternType = PatternType.LITERAL
    is_wildcard: bool = False
    host: str = "*"


RULES = (
    AclRule("no rule", exists=False),
    AclRule("allow"),
    AclRule("allow all", operation=_O.ALL),
    AclRule("deny", permission=Permission.DENY),
    AclRule("prefixed", pattern=PatternType.PREFIXED),
    AclRule("wildcard", is_wildcard=True),
    AclRule("host", host=HOST),
    AclRule("other host", host=OTHER_HOST),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One story, for any user."""

    api: str
    version: int
    need: Need
    rule: AclRule
    exists: bool

    @property
    def name(self) -> str:
        """What it asks, in words."""
        operation, kind = self.need
        of = "existing" if self.exists else "absent"
        return f"{self.api} v{self.version} {operation.name} {kind.name.lower()}, {self.rule.name}, {of}"

    def story(self, user: str, common: Common) -> Story:
        """For a user without any other ACL."""
        names, own = Names(), BEFORE.get(self.api, ((), Names()))
        story = Story(self.name, strict=False)
        for part in FIXTURES.get(self.api, TOPIC):
            story.questions += piece(part, names, common)
        requested = own[1].number(0) if self.exists else ABSENT
        for part in own[0] if self.exists else ():
            story.questions += piece(part, requested, common)
        wanted: dict[str, Value] = _ANY | {"principal_filter": f"User:{user}"}
        for n, creation in enumerate(self._creations(user, requested)):
            story.questions.append(_question(common, f"acl{n}", "CreateAcls", {"creations": [creation]}))
        story.questions.append(_question(common, "acls", "DescribeAcls", wanted))
        for n, body in enumerate(_bodies(self.api, self.version, self.need, requested)):
            for pattern in body.get("filters", [body] if self.api == "DescribeAcls" else []):
                pattern["principal_filter"] = f"User:{user}"  # or it has entries of the stories beside it
            label = (" ".join((self.need[0].name, self.need[1].name)), self.name)
            story.questions.append(Question(f"ask{n}", self.api, self.version, body, ALICE, label))
        story.questions.append(_question(common, "forget", "DeleteAcls", {"filters": [wanted]}))
        story.questions.append(_question(common, "none", "DescribeAcls", wanted))
        return story

    def _creations(self, user: str, names: Names) -> Iterator[dict[str, Value]]:
        for other in NEEDS[self.api]:
            if _helps(self.need, other):
                yield _creation(other, AclRule("allow"), names, user)
        if self.rule.exists:
            yield _creation(self.need, self.rule, names, user)
        if self.rule.permission is Permission.DENY:
            yield _creation(self.need, AclRule("allow"), names, user)


def cases(common: Common) -> Iterator[Case]:
    """Of every API that both sides serve."""
    for api in sorted(common.keys() & NEEDS.keys()):
        for version in range(common[api].first, common[api].last + 1):
            for need in NEEDS[api]:
                for rule in RULES:
                    if need[1] is _R.CLUSTER and (rule.is_wildcard or rule.pattern is PatternType.PREFIXED):
                        continue  # the cluster has one name
                    for exists in (True,) if api in _OF_NO_TOPIC else (True, False):
                        yield Case(api, version, need, rule, exists)


def _question(common: Common, name: str, api: str, body: dict[str, Value]) -> Question:
    return Question(name, api, common[api].last, body)


def _helps(need: Need, other: Need) -> bool:
    """Whether the user has the other need as well: the cluster's are alternatives to those of a topic."""
    return other[1] is not need[1] and _R.CLUSTER not in (need[1], other[1])


def _creation(need: Need, rule: AclRule, names: Names, user: str) -> dict[str, Value]:
    operation, kind = need
    name = {_R.TOPIC: names.topic, _R.GROUP: names.group, _R.TRANSACTIONAL_ID: names.txn}.get(kind, "kafka-cluster")
    if rule.pattern is PatternType.PREFIXED:
        name = "$"
    if rule.is_wildcard:
        name = "*"
    return {
        "resource_type": int(kind),
        "resource_name": name,
        "resource_pattern_type": int(rule.pattern),
        "principal": f"User:{user}",
        "host": rule.host,
        "operation": int(rule.operation or operation),
        "permission_type": int(rule.permission),
    }


def _bodies(api: str, version: int, need: Need, names: Names) -> Iterator[dict[str, Value]]:
    """The right request, and one with lists that are empty otherwise, or about the whole broker."""
    request = API_BY_NAME[api].request
    body = right(api, request, version, replace(names, new_topic=names.topic) if need[1] is _R.TOPIC else names)
    if api == "InitProducerId" and need[1] is not _R.TRANSACTIONAL_ID:
        body["transactional_id"] = None
    yield body
    full = right(api, request, version, names, full=True)
    if full != body and api != "CreateTopics":
        yield full
    if api == "Metadata":
        yield body | {"topics": None if version else []}
        if version >= 8:
            yield body | {"include_topic_authorized_operations": True}
