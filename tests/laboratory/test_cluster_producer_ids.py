"""Producer ids of the laboratory's clusters: fresh seeds, and each rule by which no id is given twice, switched off, which
seeds must see."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from coterie.controller import producer_id_blocks
from coterie.controller.producer_id_blocks import ProducerIdBlocks
from coterie.laboratory.cluster.seeds import run_seed_of_clusters
from coterie.laboratory.cluster.story import PRODUCER_IDS_FROM
from coterie.machines.script import Steps
from coterie.zookeeper.operations import ANY_VERSION, BadVersion, ConnectionLost, NodeExists, NoNode, Write
from tests.laboratory.known_seeds import SEEDS_FOR_A_DEFECT, Defect, KnownSeeds

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
FIRST = PRODUCER_IDS_FROM


def test_fresh_seeds_of_each_story() -> None:
    reports = [run_seed_of_clusters(seed, minutes=0.5) for seed in range(FIRST + 500, FIRST + 504)]
    assert min(r.producer_ids for r in reports) > 60, "too few ids are given to say anything"


def blocks_are_written_whatever_the_version(patch: Patch) -> None:
    patch.setattr(producer_id_blocks, "Write", lambda path, data, version: Write(path, data, ANY_VERSION))


def a_block_that_another_broker_wrote_is_taken(patch: Patch) -> None:
    ask = ProducerIdBlocks.ask

    def accepted(self: ProducerIdBlocks, operation: Any) -> Steps[Any]:
        try:
            return (yield from ask(self, operation))
        except (BadVersion, NodeExists, NoNode):
            return None

    patch.setattr(ProducerIdBlocks, "ask", accepted)


def a_write_without_a_response_counts_as_done(patch: Patch) -> None:
    ask = ProducerIdBlocks.ask

    def once(self: ProducerIdBlocks, operation: Any) -> Steps[Any]:
        if not isinstance(operation, Write):
            return (yield from ask(self, operation))
        try:
            return (yield operation)
        except ConnectionLost:
            return None

    patch.setattr(ProducerIdBlocks, "ask", once)


# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        blocks_are_written_whatever_the_version: FIRST,
        a_block_that_another_broker_wrote_is_taken: FIRST,
        a_write_without_a_response_counts_as_done: FIRST + 2,
    },
    partial(run_seed_of_clusters, minutes=0.5),
    range(FIRST, FIRST + SEEDS_FOR_A_DEFECT),
    match="have given the producer id",
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
