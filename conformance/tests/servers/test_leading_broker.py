"""A cluster of ours that is asked as one broker, beside a lone one: what is asked of the controller has the same responses."""

from __future__ import annotations

import asyncio

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.certify.settling import until_the_coordinator_has_loaded
from coterie.simulation.world import Simulation
from coterie_conformance.everything.judge import Bench, JudgeResult
from coterie_conformance.everything.run import Wanted, ask_everything
from coterie_conformance.groups.differential import SETTINGS
from coterie_conformance.servers.leading_broker import LedByTheFirst

BROKERS = 3
LIMIT_S = 3600.0  # of virtual time


async def compared(wanted: Wanted) -> JudgeResult:
    cluster, lone = LedByTheFirst(SETTINGS, BROKERS), Broker(BrokerSettings(SETTINGS))
    try:
        await cluster.start()
        first = cluster.brokers[1]
        theirs = await lone.start("127.0.0.1", 0)
        for address in ((first.host, first.port), theirs):
            await until_the_coordinator_has_loaded(address)
        bench = Bench((first.host, first.port), theirs, (4, 3, 0), our_brokers=BROKERS)
        return await ask_everything(bench, wanted, "4.3.0", lambda _: None)
    finally:
        await cluster.stop()
        await lone.stop()


@pytest.mark.parametrize("api", ["CreateTopics", "CreatePartitions", "DeleteTopics"])
def test_a_cluster_answers_as_a_lone_broker(api: str) -> None:
    with Simulation(seed=1) as world:
        verdict = world.run(compared(Wanted(30, seed=1, apis=(api,), first_only=True)), LIMIT_S)
    assert verdict.asked >= 30
    assert {kind: examples[0].parts for kind, examples in verdict.kinds.items()} == {}


def test_everything_is_on_the_first() -> None:
    async def story() -> None:
        cluster = LedByTheFirst(SETTINGS, BROKERS)
        try:
            await cluster.start()
            administration = cluster.brokers[1].broker.topic_changes
            assert administration is not None
            assert administration.assign(2, 1) == {0: (1, 2, 3), 1: (1, 2, 3)}
        finally:
            await cluster.stop()

    asyncio.run(story())
