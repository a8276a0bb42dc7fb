"""The judge of everything with a second coterie in Kafka's place: equal brokers agree, each old defect is found."""

from __future__ import annotations

import asyncio

import pytest

from coterie.broker.broker import Broker
from coterie.broker.handlers import HANDLERS
from coterie.broker.server import Handler
from coterie.broker.settings import BrokerSettings
from coterie.conformance.differential import SETTINGS
from coterie.conformance.everything.judge import Bench, Verdict
from coterie.conformance.everything.run import Wanted, ask_everything
from tests.conformance.old_defects import OLD_DEFECTS, OldDefect

VERSION = (4, 3, 0)


async def _judge(wanted: Wanted, changed: dict[int, Handler]) -> Verdict:
    brokers = [Broker(BrokerSettings(SETTINGS)) for _ in range(2)]
    brokers[0].handlers = HANDLERS | changed
    addresses = [await broker.start("127.0.0.1", 0) for broker in brokers]
    try:
        bench = Bench(addresses[0], addresses[1], VERSION, at_once=2 if wanted.first_only else 16)
        return await ask_everything(bench, wanted, "4.3.0", lambda _: None)
    finally:
        for broker in brokers:
            await broker.stop()


def test_equal_brokers_agree() -> None:
    verdict = asyncio.run(_judge(Wanted(400, seed=1), {}))
    assert verdict.asked >= 400
    assert not verdict.kinds, next(iter(verdict.kinds.values()))[0].text()


@pytest.mark.parametrize("defect", OLD_DEFECTS, ids=lambda defect: defect.number)
def test_an_old_defect_is_found(defect: OldDefect) -> None:
    wanted = Wanted(defect.questions, seed=1, apis=defect.apis, first_only=True)
    verdict = asyncio.run(_judge(wanted, defect.handlers))
    assert verdict.kinds, f"{verdict.asked} questions did not find it"
