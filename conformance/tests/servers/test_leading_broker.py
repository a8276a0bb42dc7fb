"""A cluster of ours that is asked as one broker, beside a lone one: what is asked of the controller has the same responses."""

from __future__ import annotations

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.certify.settling import until_the_coordinator_has_loaded
from coterie.simulation.world import Simulation
from coterie_conformance.everything.judge import Bench, JudgeResult
from coterie_conformance.everything.run import Wanted, ask_everything
from coterie_conformance.groups.differential import SETTINGS
from coterie_conformance.servers.leading_broker import SETTINGS as OF_A_CLUSTER
from coterie_conformance.servers.leading_broker import LedByTheFirst

BROKERS = 3
LIMIT_S = 3600.0  # of virtual time
# A cluster makes `__share_group_state` at the look-up of its coordinator, a broker alone at any request about a state.
WITHOUT_STATES = "'NOT_COORDINATOR' | 'NONE'"


async def compared(wanted: Wanted) -> JudgeResult:
    cluster, lone = LedByTheFirst(SETTINGS, BROKERS), Broker(BrokerSettings({**OF_A_CLUSTER, **SETTINGS}))
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


# The systematic questions about these are asked; the random stories after them are about anything.
OF_TOPICS = (
    "CreateTopics",
    "CreatePartitions",
    "DeleteTopics",
    "DeleteRecords",
    "AlterConfigs",
    "IncrementalAlterConfigs",
)
OF_TRANSACTIONS = (
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "WriteTxnMarkers",
)
OF_GROUPS = ("OffsetCommit", "OffsetDelete", "DeleteGroups", "JoinGroup", "ConsumerGroupHeartbeat")
OF_CLUSTERS = ("AlterPartitionReassignments", "AlterClientQuotas", "AlterUserScramCredentials", "DescribeConfigs")


@pytest.mark.parametrize(
    ("seed", "apis", "questions"),
    [
        (1, ("CreateTopics",), 30),
        (1, ("CreatePartitions",), 30),
        (1, ("DeleteTopics",), 30),
        # An epoch below the log's own, and offsets of a transaction that the log has open.
        (13, ("DeleteTopics",), 30),
        (27, ("DeleteTopics",), 30),
        (202, (*OF_TOPICS, *OF_CLUSTERS), 900),
        (203, (*OF_TRANSACTIONS, *OF_GROUPS), 900),
        (204, (*OF_TOPICS, *OF_TRANSACTIONS, *OF_GROUPS, *OF_CLUSTERS), 1500),
    ],
)
def test_a_cluster_answers_as_a_lone_broker(seed: int, apis: tuple[str, ...], questions: int) -> None:
    with Simulation(seed=seed) as world:
        verdict = world.run(compared(Wanted(questions, seed=seed, apis=apis, first_only=True)), LIMIT_S)
    assert verdict.requested >= questions
    kinds = {kind: examples[0].parts for kind, examples in verdict.kinds.items()}
    assert {kind for kind in kinds if "ShareGroupState" not in kind or not kind.endswith(WITHOUT_STATES)} == set(), (
        kinds
    )


async def test_everything_is_on_the_first() -> None:
    cluster = LedByTheFirst(SETTINGS, BROKERS)
    try:
        await cluster.start()
        administration = cluster.brokers[1].broker.topic_changes
        assert administration is not None
        assert administration.assign(2, 1) == {0: (1, 2, 3), 1: (1, 2, 3)}
    finally:
        await cluster.stop()
