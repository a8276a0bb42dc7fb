"""Stories asked of coterie and of one Apache Kafka, many at a time, and the outcome in figures.

The same engine serves any two brokers: `judge` takes two addresses.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.certify.question import API_BY_NAME, Question, Story, values_in
from coterie.certify.side import RESPONSE_S, StorySide
from coterie.client.connection.connection import Connection
from coterie.runtime.zookeeper_session import connect
from coterie.wire.fields import Versions
from coterie_conformance.differences.of_clusters import OF_CLUSTERS
from coterie_conformance.differences.table import ROWS
from coterie_conformance.everything.comparison import AGREE_S, Comparer, Comparison, Difference

_SESSION_MS, _CONNECT_MS = 30_000, 20_000
_FOLDERS = ("/config/users", "/config/clients")
_MAKING_NODES = frozenset({"AlterClientQuotas", "AlterUserScramCredentials"})
AT_ONCE = 16
DIFFERENCES_KEPT = 3  # of one kind
VALUES_KEPT = 2  # of one field


class Leftovers:
    """``client``: a kazoo client; see `leftovers_of`. `remove` may be called from any thread."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def close(self) -> None:
        """Ends the session."""
        self._client.stop()
        self._client.close()

    def remove(self, story: Story, prefix: str) -> None:
        """The nodes whose names begin with the story's ``prefix``, if it asked for any."""
        if not any(question.api in _MAKING_NODES for question in story.questions):
            return
        for folder in _FOLDERS:
            for name in self._client.get_children(folder):
                if name.startswith(prefix):
                    self._client.delete(f"{folder}/{name}", recursive=True)


def leftovers_of(zookeeper: str) -> Leftovers:
    """``zookeeper``: HOST:PORT. Raises `zookeeper_session.Unreachable`, ExtraMissing without kazoo."""
    return Leftovers(connect(zookeeper, _SESSION_MS, _CONNECT_MS))


Address = tuple[str, int]


@dataclass(slots=True)
class JudgeResult:
    """The outcome of a run. ``kinds``: each kind of unexplained difference with its first examples, ``met`` how often;
    ``explained``: by row and kind the first question, ``rows`` how often. Of the questions that both sides answered without
    an error: ``accepted``, the versions by api, and ``values``, the first different values by api and field. ``errors``: how
    often each API's responses of the other had which errors."""

    version: str
    requested: int = 0
    stories: int = 0
    seconds: float = 0.0
    covered: Counter[tuple[str, int, str, str]] = field(default_factory=Counter)
    rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    explained: dict[tuple[str, str], Question] = field(default_factory=dict)
    accepted: dict[str, set[int]] = field(default_factory=dict)
    values: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    kinds: dict[str, list[Difference]] = field(default_factory=dict)
    met: Counter[str] = field(default_factory=Counter)

    def add(self, comparison: Comparison) -> None:
        """Counts a story's comparison, and keeps up to `DIFFERENCES_KEPT` examples of each kind of difference."""
        self.requested, self.stories = self.requested + comparison.requested, self.stories + 1
        self.covered.update(comparison.covered)
        self.errors.update(comparison.errors)
        for explained in comparison.explained:
            self.rows[explained.row, explained.kind] += 1
            self.explained.setdefault((explained.row, explained.kind), explained.question)
        for question in comparison.accepted:
            self.accepted.setdefault(question.api, set()).add(question.version)
            for path, value in values_in(question.body):
                values = self.values.setdefault((question.api, path), set())
                if len(values) < VALUES_KEPT:
                    values.add(value)
        for difference in comparison.differences:
            kind = difference.signature()
            self.met[kind] += 1
            examples = self.kinds.setdefault(kind, [])
            if len(examples) < DIFFERENCES_KEPT:
                examples.append(difference)


@dataclass(frozen=True, slots=True)
class Bench:
    """The two brokers of a run. ``run`` keeps the names of runs on the same brokers apart; so many stories at a time.

    ``agree_s``: how long answers that differ may become alike (see `comparison`); 0 where both sides are of one piece.
    ``leftovers``: of their side. ``our_brokers``: how many stand behind our address.
    """

    ours: Address
    theirs: Address
    version: tuple[int, ...]
    run: str = "r"
    at_once: int = AT_ONCE
    agree_s: float = AGREE_S
    leftovers: Leftovers | None = None
    our_brokers: int = 1

    def comparer(self, number: int, met: Mapping[str, int] | None = None) -> Comparer:
        """Two sides with names of their own for the story ``number``."""
        base_ms = int(time.time()) * 1000
        prefix = f"e{self.run}{number:06d}-"
        peers = frozenset(range(2, self.our_brokers + 1))
        ours = StorySide("coterie", self.ours, prefix, base_ms, peers=peers)
        theirs = StorySide("kafka", self.theirs, prefix, base_ms)
        rows = ROWS if self.our_brokers == 1 else (*ROWS, *OF_CLUSTERS)
        return Comparer((ours, theirs), self.version, self.agree_s, met, rows)


async def common_versions(addresses: Iterable[Address]) -> dict[str, Versions]:
    """The apis that all these brokers serve, in the versions that they and we speak."""
    made, tables = {}, []
    for address in addresses:
        connection = await Connection.connect(*address, "judge", RESPONSE_S)
        tables.append(connection.versions)
        connection.close()
    for name, api in API_BY_NAME.items():
        ranges = [(api.request.versions.first, api.request.versions.last)]
        ranges += [table.range(api.key) for table in tables if table is not None]
        first, last = max(r[0] for r in ranges), min(r[1] for r in ranges)
        if first <= last:
            made[name] = Versions(first, last)
    return made


async def judge(
    bench: Bench, stories: Iterable[Story], verdict: JudgeResult, report: Callable[[Comparison], None]
) -> JudgeResult:
    """Asks all the stories; ``report`` receives each comparison. Raises KafkaError when a broker is gone."""
    numbers, every = itertools.count(), iter(stories)
    began = time.monotonic()

    async def ask(story: Story) -> Story | None:
        """Returns what is left of it."""
        comparer = bench.comparer(next(numbers), verdict.met)
        comparison = await comparer.compare(story)
        verdict.add(comparison)
        report(comparison)
        await asyncio.gather(*(side.sweep(story) for side in comparer.sides))
        if bench.leftovers is not None:
            await asyncio.to_thread(bench.leftovers.remove, story, comparer.sides[1].prefix)
        return comparison.rest

    async def worker() -> None:
        for story in every:
            left: Story | None = story
            while left is not None:
                left = await ask(left)

    await asyncio.gather(*(worker() for _ in range(bench.at_once)))
    verdict.seconds += time.monotonic() - began
    return verdict
