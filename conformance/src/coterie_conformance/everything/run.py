"""A whole run against one version of Apache Kafka: the systematic questions, random stories, differences made short; without
what one version is not asked, since it would answer other stories otherwise from then on."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from coterie.certify.question import Question, Story, Value
from coterie.certify.settling import wait_for_coordinator
from coterie_conformance.differences.of_versions import THREE
from coterie_conformance.differences.row import Version
from coterie_conformance.everything.beside import stories_beside
from coterie_conformance.everything.comparison import Comparison
from coterie_conformance.everything.generated.pieces import Common
from coterie_conformance.everything.generated.systematic import systematic
from coterie_conformance.everything.judge import Bench, JudgeResult, common_versions, judge, leftovers_of
from coterie_conformance.everything.moves import random_story
from coterie_conformance.everything.settings import settings_stories
from coterie_conformance.everything.shrinking import shrink
from coterie_conformance.groups.differential import SETTINGS, coterie_broker
from coterie_conformance.servers.kafka import on_zookeeper, running_broker

SHRUNK = 10  # kinds of difference that are made short
SHRINK_S = 120.0  # all of them together
# Where Kafka 4 has another default, both sides have it.
_DEFAULTS_OF_4 = {"log.message.timestamp.after.max.ms": "3600000"}
# Kafka's controller fences a broker whose heartbeats are late, on a machine with too much to do: no topic is found then.
_PATIENT_CONTROLLER = {"broker.session.timeout.ms": "600000"}
# When its cleaner comes, each broker decides for itself: what a story reads would depend on it.
_SELDOM_CLEANED = {"log.cleaner.backoff.ms": "3600000"}
# Assignments with one right result, at once.
_GROUPS_OF_4 = {
    "group.consumer.assignors": "range",
    **{f"group.{kind}.assignment.interval.ms": "0" for kind in ("consumer", "share", "streams")},
    "group.streams.initial.rebalance.delay.ms": "0",
}
# __share_group_state of one broker.
_SHARE_STATE = {
    f"share.coordinator.state.topic.{name}": "1" for name in ("num.partitions", "replication.factor", "min.isr")
}
# Where Kafka 3.9 serves the consumer protocol of groups only by a setting, neither side does.
_BEFORE_4 = {"group.coordinator.rebalance.protocols": "classic"}
# The producer ids 0 and 1, a field's default and another small number, belong to no story's producer.
_FIRST_PRODUCERS = Story(
    "first producers",
    [Question(f"init{number}", "InitProducerId", 1, {"transactional_id": None}) for number in range(2)],
)
PROGRESS_EVERY_S = 5.0


Progress = Callable[[str], None]  # receives a line about the run now and then


@dataclass(frozen=True, slots=True)
class Wanted:
    """``questions``: how many at least, the systematic ones included; ``replay``: one story to ask instead.

    ``apis``: only the systematic questions about these ("settings": the topics'), and the random stories after them.
    ``first_only``: no story begins after the first difference, which is not made short. ``brokers``: how many we have.
    """

    questions: int
    seed: int
    replay: Path | None = None
    apis: tuple[str, ...] = ()
    first_only: bool = False
    brokers: int = 1


def settings_for(version: str) -> tuple[dict[str, str], dict[str, str]]:
    """Our broker's settings and Kafka's."""
    ours, theirs = SETTINGS | _SELDOM_CLEANED, SETTINGS | _SELDOM_CLEANED
    if version.startswith("2."):
        ours["coterie.group.sync.timeout.enable"] = "false"  # KIP-752 came later
    if version.startswith("4."):
        # What is appended in one batch fails together: a story would see the exceptions of others.
        theirs |= dict.fromkeys(("group.coordinator.append.linger.ms", "share.coordinator.append.linger.ms"), "0")
        ours |= _DEFAULTS_OF_4 | _GROUPS_OF_4 | _SHARE_STATE
        theirs |= _DEFAULTS_OF_4 | _GROUPS_OF_4 | _SHARE_STATE
    else:
        ours["coterie.group.pending.leave.rebalance.enable"] = "false"
        ours |= _BEFORE_4
        theirs |= _BEFORE_4 if version.startswith("3.") else {}
    if not version.startswith("2."):
        theirs |= _PATIENT_CONTROLLER
    return ours, theirs


def run_everything(version: str, wanted: Wanted, folder: Path, progress: Progress) -> JudgeResult:
    """Starts both brokers and asks; Raises CannotRun."""
    ours, theirs = settings_for(version)
    with contextlib.ExitStack() as stack:
        kafka = stack.enter_context(running_broker(version, folder, theirs))
        address = stack.enter_context(coterie_broker(ours, brokers=wanted.brokers))
        for side in (kafka.address, address):
            wait_for_coordinator(side)
        leftovers = None
        if on_zookeeper(version):
            leftovers = stack.enter_context(contextlib.closing(leftovers_of(kafka.zookeeper_address)))
        numbers = tuple(int(part) for part in version.split("."))
        bench = Bench(address, kafka.address, numbers, leftovers=leftovers, our_brokers=wanted.brokers)
        return asyncio.run(ask_everything(bench, wanted, version, progress))


async def ask_everything(bench: Bench, wanted: Wanted, version: str, progress: Progress) -> JudgeResult:
    """The run itself, on brokers that stand."""
    verdict, common = JudgeResult(version), await common_versions((bench.ours, bench.theirs))

    report = _reporter(verdict, wanted, progress)
    await judge(bench, [_FIRST_PRODUCERS], JudgeResult(version), lambda _: None)
    if wanted.replay is not None:
        story = Story.of_json(json.loads(wanted.replay.read_text()))
        return await judge(bench, [story], verdict, report)
    stories = (spared(story, bench.version) for story in _stories(common, wanted, verdict))
    await judge(bench, stories, verdict, report)
    if not wanted.first_only:
        await _make_short(bench, verdict, progress)
    return verdict


def _stories(common: Common, wanted: Wanted, verdict: JudgeResult) -> Iterator[Story]:
    every = [*systematic(common, wanted.apis), *stories_beside(common, wanted.apis)]
    if not wanted.apis or "settings" in wanted.apis:
        every += settings_stories(common)
    random.Random(wanted.seed).shuffle(every)
    for story in itertools.chain(
        every, (random_story(seed, common, apis=wanted.apis) for seed in itertools.count(wanted.seed))
    ):
        if verdict.requested >= wanted.questions or (wanted.first_only and verdict.kinds):
            return
        story.strict = story.strict or wanted.first_only
        yield story


def _reporter(verdict: JudgeResult, wanted: Wanted, progress: Progress) -> Callable[[Comparison], None]:
    began_s = last_s = time.monotonic()

    def report(_: Comparison) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s >= last_s + PROGRESS_EVERY_S:
            last_s = now_s
            requested = f"{verdict.requested:,} of {wanted.questions:,} questions"
            rate = f"{verdict.requested / (now_s - began_s):.0f} a second"
            progress(f"{requested}, {rate}, {len(verdict.kinds)} kinds of unexplained difference")

    return report


async def _make_short(bench: Bench, verdict: JudgeResult, progress: Progress) -> None:
    """The first example of each of the most frequent kinds is replaced by the shortest story met within `SHRINK_S`."""
    numbers = itertools.count(500_000)

    async def compare(story: Story) -> Comparison:
        comparer = bench.comparer(next(numbers))
        comparison = await comparer.compare(story)
        await asyncio.gather(*(side.sweep(story) for side in comparer.sides))
        return comparison

    async def one(kind: str) -> None:
        async for shorter in shrink(verdict.kinds[kind][0], compare):
            verdict.kinds[kind][0] = shorter

    kinds = [kind for kind, _ in verdict.met.most_common(SHRUNK)]
    if kinds:
        progress(f"making {len(kinds)} differences short, {SHRINK_S:g} s at most")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SHRINK_S):
            await asyncio.gather(*map(one, kinds))


def _makes_a_negative_partition(question: Question) -> bool:
    """A topic that 2.6 makes with a partition below 0: it adds up the others, and looks no further."""
    if question.body.get("validate_only"):
        return False
    assigned = (topic.get("assignments") or [] for topic in question.body.get("topics") or [])
    return any(_counts_as_consecutive({each.get("partition_index", 0) for each in topic}) for topic in assigned)


def _counts_as_consecutive(partitions: set[Value]) -> bool:
    count = len(partitions)
    return any(p < 0 for p in partitions) and sum(p for p in partitions if p >= 0) == count * (count - 1) // 2


# (api, what is not asked) -> why, the first version that may be asked, and what recognises it.
HARMFUL: dict[tuple[str, str], tuple[str, Version, Callable[[Question], bool]]] = {
    ("CreateTopics", "a partition below 0 among assigned ones that add up to consecutive ones"): (
        "2.6 makes it, cannot read the name of its folder, and leaves other stories' new partitions without a leader",
        THREE,
        _makes_a_negative_partition,
    ),
}


def spared(story: Story, version: Version) -> Story:
    """The story without what would harm others on that version of Kafka."""
    kept = [question for question in story.questions if not _harms(question, version)]
    return Story(story.name, kept, story.strict)


def _harms(question: Question, version: Version) -> bool:
    harms = (
        recognises for (api, _), (_, before, recognises) in HARMFUL.items() if api == question.api and version < before
    )
    return any(recognises(question) for recognises in harms)
