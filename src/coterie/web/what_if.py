"""What a deploy would cost a group, as `groups predict` predicts it, for a page."""

from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from typing import Any

from coterie.laboratory.prediction import Deploy, predict, usual_alternatives
from coterie.observer.deploys import predictable
from coterie.observer.group_facts import known_group

SEEDS = 3
LONGEST_MS = 3_600_000


class UnfitDeploy(Exception):
    """A deploy that cannot be predicted; the text says why."""


class DeployPredictions:
    """Of the groups of the cluster that the client settings name: one prediction at a time, in a process of its own, so that
    neither pages nor a broker wait for it."""

    def __init__(self, client: dict[str, Any]) -> None:
        self._client = client
        self._turn = asyncio.Lock()

    async def predict(self, group: str, wanted: dict[str, Any]) -> dict[str, Any]:
        """The document of `groups predict --json`. ``wanted``: `pause_ms`, `gap_ms`, `kill`. Raises UnfitDeploy,
        UnpredictableGroup, KafkaError."""
        deploy = Deploy(_ms(wanted, "pause_ms", 8_000), _ms(wanted, "gap_ms", 30_000), _removal(wanted))
        if self._turn.locked():
            raise UnfitDeploy("another prediction is under way; try again when it is done")
        async with self._turn:
            known = await known_group(self._client, group)
            predicted = predictable(known)
            today = predicted.deployed.setting
            alternatives = usual_alternatives(today, deploy, serves_consumer=predicted.serves_consumer)
            loop = asyncio.get_running_loop()
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
                try:
                    prediction = await loop.run_in_executor(
                        processes, predict, predicted.deployed, deploy, alternatives, SEEDS
                    )
                except BrokenProcessPool as error:
                    raise UnfitDeploy("the process that predicts was killed") from error
        return {"group": group, **asdict(deploy), **asdict(prediction), "assumed": predicted.assumed}


def _ms(wanted: dict[str, Any], name: str, default: int) -> int:
    value = wanted.get(name, default)
    if type(value) is not int or not 0 <= value <= LONGEST_MS:
        raise UnfitDeploy(f"{name} must be a whole number of ms from 0 to {LONGEST_MS}")
    return value


def _removal(wanted: dict[str, Any]) -> str:
    return "kill" if wanted.get("kill") else "leave"
