"""A whole run against one version of Apache Kafka: the systematic questions, random tales, differences made short."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.conformance.differences import ROWS
from coterie.conformance.differential import SETTINGS, coterie_broker, wait_for_coordinator
from coterie.conformance.everything.judge import Bench, Verdict, common_versions, judge
from coterie.conformance.everything.moves import random_tale
from coterie.conformance.everything.question import Tale, written
from coterie.conformance.everything.shrinking import shrink
from coterie.conformance.everything.systematic import Common, systematic
from coterie.conformance.everything.telling import Difference, Told
from coterie.conformance.kafka import running
from coterie.wire.apis import APIS

SHRUNK = 10  # kinds of difference that are made short
SHRINK_S = 60.0
Tell = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """``questions``: how many at least, the systematic ones included; ``replay``: a tale to tell instead."""

    questions: int
    seed: int
    replay: Path | None = None


def settings_for(version: str) -> tuple[dict[str, str], dict[str, str]]:
    """Our broker's settings and Kafka's."""
    ours, theirs = dict(SETTINGS), dict(SETTINGS)
    if version.startswith("2."):
        ours["coterie.group.sync.timeout.enable"] = "false"  # KIP-752 came later
    if version.startswith("4."):
        theirs["group.coordinator.append.linger.ms"] = "0"
    else:
        ours["coterie.group.pending.leave.rebalance.enable"] = "false"
    return ours, theirs


def run_everything(version: str, wanted: Wanted, folder: Path, tell: Tell) -> Verdict:
    """Starts both brokers and asks; ``tell`` hears how many questions a tale had. Raises CannotRun."""
    ours, theirs = settings_for(version)
    with running(version, folder, theirs) as kafka, coterie_broker(ours) as address:
        for side in (kafka, address):
            wait_for_coordinator(side)
        bench = Bench(address, kafka, tuple(int(part) for part in version.split(".")))
        return asyncio.run(ask_everything(bench, wanted, version, tell))


async def ask_everything(bench: Bench, wanted: Wanted, version: str, tell: Tell) -> Verdict:
    """The run itself, on brokers that stand."""
    verdict, common = Verdict(version), await common_versions(bench)

    def heard(told: Told) -> None:
        tell(told.asked)

    if wanted.replay is not None:
        tale = Tale.of_json(json.loads(wanted.replay.read_text()))
        return await judge(bench, [tale], verdict, heard)
    await judge(bench, _tales(common, wanted, verdict), verdict, heard)
    await _make_short(bench, verdict)
    return verdict


def _tales(common: Common, wanted: Wanted, verdict: Verdict) -> Iterator[Tale]:
    every = list(systematic(common))
    random.Random(wanted.seed).shuffle(every)
    for tale in every:
        if verdict.asked >= wanted.questions:
            return
        yield tale
    for seed in itertools.count(wanted.seed):
        if verdict.asked >= wanted.questions:
            return
        yield random_tale(seed, common)


async def _make_short(bench: Bench, verdict: Verdict) -> None:
    """The first example of each of the most frequent kinds is replaced by its shortest tale."""
    numbers = itertools.count(500_000)

    async def tell(tale: Tale) -> Told:
        teller = bench.teller(next(numbers))
        told = await teller.tell(tale)
        await asyncio.gather(*(side.sweep(tale) for side in teller.sides))
        return told

    for kind, _ in verdict.met.most_common(SHRUNK):
        try:
            async with asyncio.timeout(SHRINK_S):
                verdict.kinds[kind][0] = await shrink(verdict.kinds[kind][0], tell)
        except TimeoutError:
            continue


def scenario(difference: Difference) -> str:
    """The tale to read, with what each side answered at its end."""
    lines = [f"  {written(question)}" for question in difference.tale.questions]
    return "\n".join([difference.signature(), *lines, *difference.text().splitlines()[1:]])


def coverage(verdict: Verdict) -> dict[str, dict[str, Any]]:
    """By api: its versions asked, how many fields and how many (version, field, class) of the systematic questions."""
    made: dict[str, dict[str, Any]] = {}
    for api in sorted({api for api, *_ in verdict.covered}):
        keys = [key for key in verdict.covered if key[0] == api]
        made[api] = {
            "versions": sorted({version for _, version, _, _ in keys}),
            "fields": len({path for _, _, path, _ in keys if path}),
            "cases": len(keys),
            "questions": sum(verdict.covered[key] for key in keys),
        }
    return made


def figures(verdict: Verdict) -> dict[str, Any]:
    """The report as data."""
    reasons = {row.name: row.reason for row in ROWS}
    kinds = [
        {"kind": kind, "met": met, "scenario": scenario(verdict.kinds[kind][0]), "tale": verdict.kinds[kind][0].tale.as_json()}
        for kind, met in verdict.met.most_common()
    ]
    return {
        "questions": verdict.asked,
        "tales": verdict.tales,
        "seconds": round(verdict.seconds, 1),
        "apis": len({api for api, *_ in verdict.covered}),
        "served": len([api for api in APIS.values() if not api.hidden]),
        "coverage": coverage(verdict),
        "differences": kinds,
        "rows": {name: {"met": n, "reason": reasons[name]} for name, n in verdict.rows.most_common()},
        "unused_rows": [row.name for row in ROWS if row.name not in verdict.rows],
    }
