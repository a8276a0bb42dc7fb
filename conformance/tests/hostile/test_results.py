"""The tables of attacks in docs/contributing/conformance.md show docs/results/hostile.json; `python -m` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from coterie_conformance.hostile.attacks import ATTACKS
from coterie_conformance.hostile.logins import LOGIN_ATTACKS
from coterie_conformance.hostile.run import MEMORY_MB, WORST_S
from coterie_conformance.hostile.target import Attack

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "contributing/conformance.md"
Outcome = dict[str, Any]
OURS, KAFKAS = (
    {attack["attack"]: attack for attack in broker["attacks"]}
    for broker in json.loads((DOCS / "results" / "hostile.json").read_text())["brokers"]
)


def beside_kafka(ours: Outcome) -> Iterable[str]:
    theirs = KAFKAS.get(ours["attack"])
    wait = "not asked" if theirs is None else f"{theirs['worst_s']:.2f} s"
    if theirs is not None and theirs["silent"]:
        wait = f"no answer for {theirs['worst_s']:.0f} s"
    return ours["attack"], f"{ours['amount']:,}", f"{ours['worst_s']:.2f} s", f"{ours['memory_mb']} MB", wait


def alone(ours: Outcome) -> Iterable[str]:
    result = f"{ours['responded']}, in {ours['seconds']:.0f} s"
    return ours["attack"], f"{ours['amount']:,}", f"{ours['worst_s']:.2f} s", f"{ours['memory_mb']} MB", result


TABLES: Mapping[str, tuple[Sequence[Attack], Callable[[Outcome], Iterable[str]]]] = {
    "| attack | amount | longest heartbeat | memory | Kafka's longest heartbeat |": (ATTACKS, beside_kafka),
    "| attack | amount | longest heartbeat | memory | result |": (LOGIN_ATTACKS, alone),
}


def rows_of(header: str) -> list[str]:
    attacks, cells = TABLES[header]
    return [f"| {' | '.join(cells(OURS[attack.name]))} |" for attack in attacks]


@pytest.mark.parametrize("header", TABLES)
def test_the_table_of_attacks_is_what_was_measured(header: str) -> None:
    (_, after) = PAGE.read_text().split(header)
    shown = [line for line in after.split("\n\n")[0].splitlines()[2:] if line]
    assert shown == rows_of(header)


def test_every_attack_was_measured_within_its_bounds() -> None:
    attacks = (*ATTACKS, *LOGIN_ATTACKS)
    assert [(one["attack"], one["amount"]) for one in OURS.values()] == [(a.name, a.amount) for a in attacks]
    for attack in OURS.values():
        assert not attack["wrong"], attack
        assert attack["worst_s"] <= WORST_S, attack
        assert attack["memory_mb"] <= MEMORY_MB, attack


def main() -> None:
    """Writes the rows into the page."""
    text = PAGE.read_text()
    for header in TABLES:
        before, after = text.split(header)
        lines = after.splitlines()
        end = next((at for at, line in enumerate(lines) if at and not line.startswith("|")), len(lines))
        text = before + header + "\n".join([*lines[:2], *rows_of(header), *lines[end:]]) + "\n"
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
