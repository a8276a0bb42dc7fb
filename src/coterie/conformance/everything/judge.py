"""Tales told to coterie and to one Apache Kafka, many at a time, and what came out of them in figures.

The same engine serves any two brokers: `judge` takes two addresses.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from coterie.client.connection import Connection
from coterie.conformance.everything.question import API_BY_NAME, Tale
from coterie.conformance.everything.side import ANSWER_S, Side
from coterie.conformance.everything.telling import AGREE_S, Difference, Teller, Told
from coterie.wire.declaration import Versions

Address = tuple[str, int]
AT_ONCE = 16
DIFFERENCES_KEPT = 3  # of one kind


@dataclass(slots=True)
class Verdict:
    """What a run came to. ``kinds``: how often each kind of difference was met, with the first examples."""

    version: str
    asked: int = 0
    tales: int = 0
    seconds: float = 0.0
    covered: Counter[tuple[str, int, str, str]] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, list[Difference]] = field(default_factory=dict)
    met: Counter[str] = field(default_factory=Counter)

    def add(self, told: Told) -> None:
        self.asked, self.tales = self.asked + told.asked, self.tales + 1
        self.covered.update(told.covered)
        self.rows.update(told.rows)
        for difference in told.differences:
            kind = difference.signature()
            self.met[kind] += 1
            examples = self.kinds.setdefault(kind, [])
            if len(examples) < DIFFERENCES_KEPT:
                examples.append(difference)


@dataclass(frozen=True, slots=True)
class Bench:
    """The two brokers of a run. ``run`` keeps the names of runs on the same brokers apart; so many tales at a time.

    ``agree_s``: how long answers that differ may become alike (see `telling`); 0 where both sides are of one piece.
    """

    ours: Address
    theirs: Address
    version: tuple[int, ...]
    run: str = "r"
    at_once: int = AT_ONCE
    agree_s: float = AGREE_S

    def teller(self, number: int) -> Teller:
        base_ms = int(time.time()) * 1000
        prefix = f"e{self.run}{number:06d}-"
        sides = [Side(name, where, prefix, base_ms) for name, where in (("coterie", self.ours), ("kafka", self.theirs))]
        return Teller(sides[0], sides[1], self.version, self.agree_s)


async def common_versions(addresses: Iterable[Address]) -> dict[str, Versions]:
    """The apis that all these brokers serve, in the versions that they and we speak."""
    made, tables = {}, []
    for address in addresses:
        connection = await Connection.connect(*address, "judge", ANSWER_S)
        tables.append(connection.versions)
        connection.close()
    for name, api in API_BY_NAME.items():
        ranges = [(api.request.versions.first, api.request.versions.last)]
        ranges += [table.range(api.key) for table in tables if table is not None]
        first, last = max(r[0] for r in ranges), min(r[1] for r in ranges)
        if first <= last:
            made[name] = Versions(first, last)
    return made


async def judge(bench: Bench, tales: Iterable[Tale], verdict: Verdict, told: Callable[[Told], None]) -> Verdict:
    """Tells all the tales; ``told`` hears of each. Raises KafkaError when a broker is gone."""
    numbered: Iterator[tuple[int, Tale]] = zip(itertools.count(), tales)
    began = time.monotonic()

    async def worker() -> None:
        for number, tale in numbered:
            teller = bench.teller(number)
            result = await teller.tell(tale)
            verdict.add(result)
            told(result)
            await asyncio.gather(*(side.sweep(tale) for side in teller.sides))

    await asyncio.gather(*(worker() for _ in range(bench.at_once)))
    verdict.seconds += time.monotonic() - began
    return verdict
