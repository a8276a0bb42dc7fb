"""What a deploy would cost a group, as `groups predict` predicts it, with a timeline of each setting, and of what was."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from typing import Any

from coterie.coordinator.journal.journal_timeline import JournalTimeline
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.timeline import Timeline, owner_name
from coterie.laboratory.predicted_timeline import predicted_timeline
from coterie.laboratory.prediction import (
    Alternative,
    Deploy,
    DeployedGroup,
    Prediction,
    predict,
    setting_phrase,
    usual_alternatives,
)
from coterie.machines.ownership import Partition
from coterie.observer.deploys import predictable
from coterie.observer.group_descriptions import now_ms
from coterie.observer.group_facts import known_group
from coterie.text.hidden import visible
from coterie.text.phrase import PhrasedError
from coterie.web.group_memory import JournalMemory
from coterie.web.live_rows import is_rebalance

SEEDS = 3
LONGEST_MS = 3_600_000


class UnfitDeploy(PhrasedError):
    """A deploy that cannot be predicted."""


class DeployPredictions:
    """Of the groups of the cluster that the client settings name: one prediction at a time, in a process of its own, so that
    neither pages nor a broker wait for it. ``journal``: what was."""

    def __init__(self, client: dict[str, Any], journal: JournalMemory) -> None:
        self._client, self._journal = client, journal
        self._turn = asyncio.Lock()

    async def predict(self, group: str, wanted: dict[str, Any]) -> dict[str, Any]:
        """The document of `groups predict --json`, with `timelines` (as if the deploy began now) and `setting_phrases` of its
        costs, in their order, `assumed_phrases`, and `was` (`past`; null where no rebalance was seen). ``wanted``: `pause_ms`,
        `gap_ms`, `kill`, `only_one`. Raises UnfitDeploy, UnpredictableGroup, KafkaError."""
        removal = "kill" if wanted.get("kill") else "leave"
        only_one = bool(wanted.get("only_one"))
        deploy = Deploy(_ms(wanted, "pause_ms", 8_000), _ms(wanted, "gap_ms", 30_000), removal, only_one)
        if self._turn.locked():
            raise UnfitDeploy("prediction_under_way")
        async with self._turn:
            known = await known_group(self._client, group)
            predicted = predictable(known)
            deployed = predicted.deployed
            alternatives = usual_alternatives(deployed.setting, deploy, serves_consumer=predicted.serves_consumer)
            settings = [deployed.setting, *(alternative.setting for alternative in alternatives)]
            members = sorted(
                owner_name(m.member_id, m.client_id, m.group_instance_id) for m in known.description.members
            )
            loop = asyncio.get_running_loop()
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
                try:
                    prediction, timelines = await loop.run_in_executor(
                        processes,
                        predicted_with_timelines,
                        deployed,
                        deploy,
                        alternatives,
                        members,
                        sorted(known.description.owners),
                    )
                except BrokenProcessPool as error:
                    raise UnfitDeploy("prediction_killed") from error
        return {
            "group": group,
            **asdict(deploy),
            **asdict(prediction),
            "assumed": list(map(str, predicted.assumed)),
            "assumed_phrases": list(map(asdict, predicted.assumed)),
            "setting_phrases": [asdict(setting_phrase(setting)) for setting in settings],
            "timelines": [_document(timeline, group) for timeline in timelines],
            "was": past(group, self._journal.of(group), members, deployed.partitions),
        }


def predicted_with_timelines(
    group: DeployedGroup,
    deploy: Deploy,
    alternatives: Sequence[Alternative],
    members: Sequence[str],
    partitions: Sequence[Partition],
) -> tuple[Prediction, list[Timeline]]:
    """The costs, and how each would look if the deploy began now."""
    begins_ms = now_ms()
    settings = [group.setting, *(alternative.setting for alternative in alternatives)]
    timelines = [predicted_timeline(group, deploy, s, members, partitions, begins_ms=begins_ms) for s in settings]
    return predict(group, deploy, alternatives, SEEDS), timelines


def past(group: str, lines: Sequence[JournalLine], members: Sequence[str], partitions: int) -> dict[str, Any] | None:
    """What was seen of a group in the measures of a prediction, `since_ms`, with its `timeline`, in which the present members
    are the first owners; None without a rebalance."""
    rebalances = sum(map(is_rebalance, lines))
    if not rebalances:
        return None
    timeline = JournalTimeline(group)
    for line in lines:
        timeline.add(line)
    timeline.timeline.order_owners(members)
    return {
        "since_ms": lines[0].time_ms,
        "rebalances": rebalances,
        "unowned_s": sum(line.unowned_ms or 0 for line in lines) / 1000 / max(partitions, 1),
        "moved": sum(line.moved_count or 0 for line in lines if line.event != "target_computed"),
        "timeline": _document(timeline.timeline, group),
    }


def _document(timeline: Timeline, group: str) -> dict[str, Any]:
    timeline.group = group
    return timeline.document(visible)


def _ms(wanted: dict[str, Any], name: str, default: int) -> int:
    value = wanted.get(name, default)
    if type(value) is not int or not 0 <= value <= LONGEST_MS:
        raise UnfitDeploy("not_a_number", name=name, least=0, most=LONGEST_MS)
    return value
