"""The table of attacks in docs/contributing/conformance.md shows docs/results/hostile.json."""

from __future__ import annotations

import json
from pathlib import Path

from coterie_conformance.hostile.attacks import ATTACKS
from coterie_conformance.hostile.run import MEMORY_MB, WORST_S

DOCS = Path(__file__).parents[3] / "docs"


def test_the_table_of_attacks_is_what_was_measured() -> None:
    ours, kafkas = (b["attacks"] for b in json.loads((DOCS / "results" / "hostile.json").read_text())["brokers"])
    there = {attack["attack"]: attack for attack in kafkas}
    rows = []
    for attack in ours:
        theirs = there.get(attack["attack"])
        wait = "not asked" if theirs is None else f"{theirs['worst_s']:.2f} s"
        if theirs is not None and theirs["silent"]:
            wait = f"no answer for {theirs['worst_s']:.0f} s"
        cells = (
            attack["attack"],
            f"{attack['amount']:,}",
            f"{attack['worst_s']:.2f} s",
            f"{attack['memory_mb']} MB",
            wait,
        )
        rows.append(f"| {' | '.join(cells)} |")
    text = (DOCS / "contributing/conformance.md").read_text()
    table = text.split("| attack | amount |")[1].splitlines()[2:]
    assert [line for line in table if line.startswith("|")] == rows


def test_every_attack_was_measured_within_its_bounds() -> None:
    ours = json.loads((DOCS / "results" / "hostile.json").read_text())["brokers"][0]["attacks"]
    assert [(a["attack"], a["amount"]) for a in ours] == [(attack.name, attack.amount) for attack in ATTACKS]
    for attack in ours:
        assert not attack["wrong"], attack
        assert attack["worst_s"] <= WORST_S, attack
        assert attack["memory_mb"] <= MEMORY_MB, attack
