"""A request as data, without anything that only one broker knows: JSON in, JSON out.

The body is nested dictionaries by the fields' names; a field that is missing has the schema's default. A text may
contain ``$``: each story replaces it by a prefix of its own, so that "$t" is a topic (or a group, ...) of that story.
What differs between brokers or runs is a *form*, a dictionary with the key ``@``:

    {"@": "id", "of": "member@join", "or": ""}   an id that an earlier response gave (see `side.LEARNED`), or that
    {"@": "topic id", "of": "$t"}                the id of a topic, all zeros until a response has it
    {"@": "now", "ms": -1000}                    that far from the story's start
    {"@": "hex", "of": "00ff"}                   bytes
    {"@": "text", "of": "x", "times": 300}       a long text
    {"@": "subscription", "topics": ["$t"], "version": 3, "claims": 1}    encoded as the one, called the other
    {"@": "records", "batches": [...]}           see `batches`

An id that no response gave is the form's own default, else empty or -1, so that a story stays one when questions are taken
away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from coterie.wire.apis import APIS, Api
from coterie.wire.declaration import Message, Struct
from coterie.wire.fields import FieldType

Value = Any  # None, bool, int, float, str, list or dict: what JSON has
# Of a move: (api, what differs from the right request). {n} is the move's number, {s} a sequence number that goes up.
Step = tuple[str, dict[str, Value]]
API_BY_NAME: dict[str, Api] = {api.name: api for api in APIS.values() if not api.hidden}
READING = frozenset(
    {
        "ApiVersions", "Metadata", "Fetch", "ListOffsets", "OffsetFetch", "FindCoordinator", "DescribeGroups",
        "ListGroups", "OffsetForLeaderEpoch", "DescribeConfigs", "DescribeCluster", "DescribeLogDirs",
        "DescribeProducers", "DescribeTransactions", "ListTransactions", "DescribeTopicPartitions",
        "ListConfigResources", "ListPartitionReassignments", "DescribeClientQuotas", "DescribeUserScramCredentials",
        "DescribeAcls", "Heartbeat", "ShareGroupDescribe", "DescribeShareGroupOffsets", "StreamsGroupDescribe",
        "ReadShareGroupStateSummary",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """One request. ``name`` is unique in the story, and part of the ids that its response gives.

    ``covers``: the field and the class of value that a systematic question is about, e.g. ("topics.name", "unknown").
    """

    name: str
    api: str
    version: int
    body: dict[str, Value]
    connection: str = "main"
    covers: tuple[str, str] = ("", "")

    def as_json(self) -> dict[str, Value]:
        """As `from_json` reads it; what is usual is left out."""
        made: dict[str, Value] = {"name": self.name, "api": self.api, "version": self.version, "body": self.body}
        if self.connection != "main":
            made["connection"] = self.connection
        return made | {"covers": list(self.covers)} if any(self.covers) else made

    @classmethod
    def of_json(cls, data: dict[str, Value]) -> Question:
        field, value_class = data.get("covers", ("", ""))
        connection = data.get("connection", "main")
        return cls(data["name"], data["api"], data["version"], data["body"], connection, (field, value_class))


@dataclass(slots=True)
class Story:
    """Questions in a row, on names of their own. ``strict``: the rest is left out after the first difference,
    nor after a request to which the sides responded otherwise as known."""

    name: str
    questions: list[Question] = field(default_factory=list)
    strict: bool = True

    def after(self, at: int) -> Story | None:
        """The questions behind that one as a story of their own: all that are about nothing themselves come first again. None
        where no question is left."""
        before = [question for question in self.questions[:at] if not any(question.covers)]
        rest = self.questions[at + 1 :]
        return Story(self.name, before + rest, self.strict) if any(any(q.covers) for q in rest) else None

    def as_json(self) -> dict[str, Value]:
        return {"name": self.name, "strict": self.strict, "questions": [q.as_json() for q in self.questions]}

    @classmethod
    def of_json(cls, data: dict[str, Value]) -> Story:
        return cls(data["name"], [Question.of_json(q) for q in data["questions"]], data["strict"])


Resolve = Callable[[FieldType, Value], Any]  # a text, a number or a form -> the value of that kind


def build(shape: type[Struct], body: dict[str, Value], resolve: Resolve) -> Any:
    """The message with these fields, every other one at its default."""
    specs = {spec.name: spec for spec in shape.fields}
    return shape(**{name: _value(specs[name].kind, value, resolve) for name, value in body.items()})


def _value(kind: FieldType, value: Value, resolve: Resolve) -> Any:
    if value is None:
        return None
    if kind.shape is not None:
        return build(kind.shape, value, resolve)
    if kind.element is not None:
        return [_value(kind.element, item, resolve) for item in value]
    return resolve(kind, value)


def message_of(question: Question, resolve: Resolve) -> Message:
    """The request with its defaults for the fields that the question leaves out; ``resolve`` replaces the symbols."""
    message: Message = build(API_BY_NAME[question.api].request, question.body, resolve)
    return message


def texts_in(value: Value) -> Iterator[str]:
    """Every text in a body, forms' included."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_in(item)


def values_in(body: Value, path: str = "") -> Iterator[tuple[str, str]]:
    """The path and the written value of every field in it that has no fields of its own."""
    if isinstance(body, dict) and "@" not in body:
        for name, value in body.items():
            yield from values_in(value, f"{path}.{name}" if path else name)
    elif isinstance(body, list) and body:
        for item in body:
            yield from values_in(item, path)
    else:
        yield path, repr(body)


def numbered(value: Value, n: int) -> Value:
    """A copy with ``n`` for "{n}" in every text."""
    if isinstance(value, str):
        return value.replace("{n}", str(n))
    if isinstance(value, list):
        return [numbered(item, n) for item in value]
    return {k: numbered(v, n) for k, v in value.items()} if isinstance(value, dict) else value


def written(question: Question) -> str:
    """One line to read: the api, its version, and the fields that are not at their default."""
    where = "" if question.connection == "main" else f" on {question.connection}"
    return f"{question.name}{where}: {question.api} v{question.version} {_written(question.body)}"


def _written(value: Value) -> str:
    if isinstance(value, dict) and "@" in value:
        rest = [_written(v) for k, v in value.items() if k not in ("@", "or")]
        return f"<{value['@']} {' '.join(rest)}>"
    if isinstance(value, dict):
        return "(" + ", ".join(f"{k}={_written(v)}" for k, v in value.items()) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return repr(value)
