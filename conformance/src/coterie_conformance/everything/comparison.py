"""A story asked of two brokers: question by question, each response compared with the other's.

Kafka's own parts agree only after a while: a topic is known to the coordinator later than to the controller, a marker is
written after its EndTxn was answered. So a response that only reads is asked for again while the two differ, and one that
says "not yet" is asked for again on its side alone; both for at most ``agree_s``, and much shorter for a kind of difference
that stayed before.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coterie.certify.question import READING, Question, Story, written
from coterie.certify.responses import ERRORS, NOT_YET, Part, Tree, differences
from coterie.certify.side import CLOSED, StorySide
from coterie.client.errors import KafkaError
from coterie_conformance.differences.recognisers import DifferingPart
from coterie_conformance.differences.row import KnownDifference
from coterie_conformance.differences.table import ROWS, row_of

AGREE_S = 4.0
AGAIN_EVERY_S = 0.02
STAYED = 2  # so often, then the next one of the kind waits for a part of ``agree_s`` only
PART_OF_AGREE_S = 0.2
OPENS_A_SESSION = 0  # the epoch of such a Fetch
# A broker learns of topics from its controller (2.6's of their settings one after the other), on a busy machine seconds later.
NOT_YET_FACTOR = 5


def _left_to_ask(question: Question, response: Tree) -> Question:
    """The question less the partitions of a Produce that the response has accepted; the question itself of another API, and
    where nothing was accepted or nothing is left."""
    accepted = _accepted(response) if question.api == "Produce" else set()
    left = [
        topic | {"partition_data": [p for p in parts if (topic.get("name"), p.get("index", 0)) not in accepted]}
        for topic in question.body.get("topic_data") or []
        if (parts := topic.get("partition_data") or [])
    ]
    left = [topic for topic in left if topic["partition_data"]]
    return replace(question, body=question.body | {"topic_data": left}) if accepted and left else question


def merged(before: Tree, after: Tree) -> Tree:
    """The response ``after`` with the accepted partitions of the one ``before``, whose order is kept."""
    accepted = _accepted(before)
    if not accepted or not isinstance(after, dict):
        return after
    again = {(t["name"], p["index"]): p for t in after["responses"] for p in t["partition_responses"]}
    topics = []
    for topic in before["responses"]:
        parts = [again.get((topic["name"], part["index"]), part) for part in topic["partition_responses"]]
        topics.append(topic | {"partition_responses": parts})
    return after | {"responses": topics}


def _accepted(response: Tree) -> set[tuple[Any, int]]:
    """Name and partition of each that a Produce's response has without an error; of one that names topics by their ids none."""
    topics = response.get("responses") or [] if isinstance(response, dict) else []
    parts = [(t["name"], p) for t in topics if "name" in t for p in t.get("partition_responses") or []]
    return {(name, part["index"]) for name, part in parts if part["error_code"] == "NONE"}


def only_reads(question: Question) -> bool:
    """Whether the same response may be asked for again: not in a fetch session, whose epoch each request raises."""
    return question.api in READING and not question.body.get("session_id")


def keeps_state(question: Question) -> bool:
    """Whether both sides are as alike after the request as before, whatever each of them returned."""
    return only_reads(question) and question.body.get("session_epoch") != OPENS_A_SESSION


@dataclass(slots=True)
class Difference:
    """One question's responses, and the parts that no row explains."""

    story: Story
    question: Question
    ours: Tree
    theirs: Tree
    parts: list[Part]

    def signature(self) -> str:
        """The same for differences that look the same: the api, and what stands where."""
        return kind_of(self.question, self.parts[0])

    def text(self) -> str:
        """The question, and up to eight parts of the response that differ."""
        lines = [written(self.question)]
        for part in self.parts[:8]:
            lines.append(f"  {part.path or 'answer'}: coterie {_short(part.ours)}, the other {_short(part.theirs)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explained:
    """A part of a response that differs as a row explains: the row's name, the kind of difference, the question; ``lasting``
    as of the row."""

    row: str
    kind: str
    question: Question
    lasting: bool = False


@dataclass(slots=True)
class Comparison:
    """The outcome of one story. ``explained``: the parts that rows explain; ``parted``: the sides' states differ since a
    difference that a row explains; ``accepted``: the questions that both sides answered without an error; ``errors``: each
    question's API and the errors in the other's response; ``rest``: the
    story of the questions that were not asked for that reason, of one that is not strict."""

    story: Story
    requested: int = 0
    covered: list[tuple[str, int, str, str]] = field(default_factory=list)
    explained: list[Explained] = field(default_factory=list)
    accepted: list[Question] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)
    parted: bool = False
    differences: list[Difference] = field(default_factory=list)
    rest: Story | None = None


def kind_of(question: Question, part: Part) -> str:
    """The same for parts that differ alike: the api, and what stands where on both sides."""
    return f"{question.api} {part.general() or 'answer'}: {_short(part.ours)} | {_short(part.theirs)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else text[:150] + " ..."


class Comparer:
    """Asks our side and the other the questions of one story; ``version`` is the other's, e.g. (3, 9, 1).

    ``met``: how often each kind of difference was met before; ``rows``: the known differences.
    """

    def __init__(
        self,
        sides: tuple[StorySide, StorySide],
        version: tuple[int, ...],
        agree_s: float = AGREE_S,
        met: Mapping[str, int] | None = None,
        rows: Sequence[KnownDifference] = ROWS,
    ) -> None:
        self._rows = rows
        self.sides, self.version, self.agree_s = sides, version, agree_s
        self._met = Counter(met or {})

    async def compare(self, story: Story) -> Comparison:
        """Asks both sides the story's questions in turn; a strict story ends at its first difference."""
        comparison = Comparison(story)
        try:
            for at, question in enumerate(story.questions):
                difference = await self._one(story, question, comparison)
                if difference is not None:
                    self._met[difference.signature()] += 1
                    comparison.differences.append(difference)
                if story.strict and (difference is not None or comparison.parted):
                    break
                if not story.strict and any(e.lasting and e.question is question for e in comparison.explained):
                    comparison.rest = story.after(at)
                    break
        finally:
            for side in self.sides:
                side.close()
        return comparison

    async def _one(self, story: Story, question: Question, comparison: Comparison) -> Difference | None:
        responses = await asyncio.gather(*(self._ask(side, question) for side in self.sides))
        left, explained = self._unexplained(question, responses)
        began_s = time.monotonic()
        while left and time.monotonic() < began_s + self._patience_s(
            Difference(story, question, responses[0], responses[1], left)
        ):
            again = _to_ask_again(question, responses, left)
            if not any(again):
                break
            await asyncio.sleep(AGAIN_EVERY_S)
            for n, side in enumerate(self.sides):
                if again[n]:
                    responses[n] = merged(responses[n], await self._ask(side, _left_to_ask(question, responses[n])))
            left, explained = self._unexplained(question, responses)
        comparison.requested += 1
        comparison.parted |= not keeps_state(question) and any(_is_outcome(part) for part in differences(*responses))
        comparison.parted |= any(part.lasting for part in explained)
        comparison.explained += explained
        if all(isinstance(response, dict) and {*codes_in(response)} <= {"NONE"} for response in responses):
            comparison.accepted.append(question)
        theirs = responses[1]
        codes = sorted({*codes_in(theirs)} - {"NONE"}) if isinstance(theirs, dict) else [str(theirs)]
        comparison.errors.append((question.api, ", ".join(codes) or "NONE"))
        comparison.covered.append((question.api, question.version, *question.covers))
        return Difference(story, question, responses[0], responses[1], left) if left else None

    def _patience_s(self, difference: Difference) -> float:
        agree_s = self.agree_s * (1 if self._met[difference.signature()] < STAYED else PART_OF_AGREE_S)
        return agree_s * (NOT_YET_FACTOR if any(code in repr(difference.parts) for code in NOT_YET) else 1)

    async def _ask(self, side: StorySide, question: Question) -> Tree:
        try:
            return await side.ask(question)
        except KafkaError:
            return CLOSED

    def _unexplained(self, question: Question, responses: list[Tree]) -> tuple[list[Part], list[Explained]]:
        left, explained = list[Part](), list[Explained]()
        for part in differences(responses[0], responses[1]):
            row = row_of(DifferingPart(question, part, responses[0], responses[1]), self.version, self._rows)
            if row is None:
                left.append(part)
            else:
                explained.append(Explained(row.name, kind_of(question, part), question, row.lasting))
        return left, explained


def _is_outcome(part: Part) -> bool:
    """Whether the request had another outcome: another error, or an element more or less with an error of its own."""
    if not part.path or ERRORS.search(part.path) is not None:
        return True
    return set(codes_in(part.ours)) != set(codes_in(part.theirs))


def codes_in(tree: Tree) -> Iterator[str]:
    """Every error in it."""
    if isinstance(tree, dict):
        yield from (value for name, value in tree.items() if ERRORS.search(name) is not None)
    for inner in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from codes_in(inner)


def _to_ask_again(question: Question, responses: list[Tree], left: list[Part]) -> tuple[bool, bool]:
    """The sides whose response may change in a moment."""
    if only_reads(question):
        return True, True
    if question.api == "Fetch":
        return False, False  # the session went on with the first response
    unacknowledged = question.api == "Produce" and not question.body.get("acks", 0)
    not_yet = (*NOT_YET, CLOSED) if unacknowledged else NOT_YET  # any error of it ends the connection
    late = [
        any(word in repr(value) for word in not_yet) for value in zip(*((p.ours, p.theirs) for p in left), strict=True)
    ]
    return late[0], late[1]
