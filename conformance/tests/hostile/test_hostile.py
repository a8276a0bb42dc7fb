"""Hostile clients beside a bystander, for seconds; `./run conformance --part hostile` does the same for minutes. The
tables of attacks in docs/contributing/conformance.md show docs/results/hostile.json; `python -m` writes them."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coterie_conformance.hostile.attacks import ATTACKS
from coterie_conformance.hostile.bystander import Bystander
from coterie_conformance.hostile.logins import LOGIN_ATTACKS
from coterie_conformance.hostile.run import (
    MEMORY_MB,
    WORST_S,
    AttackOutcome,
    broken,
    carry_out,
    run_attacks,
    run_hostile,
)
from coterie_conformance.hostile.target import Address, Attack, coterie_target, secured_target

UNHURRIED_S = 10.0  # on a machine that has other work to do
_UNAUTHENTICATED = {"coterie.connections.max.unauthenticated.ms": "3600000"}
DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "contributing/conformance.md"
OURS, KAFKAS = (
    {attack["attack"]: attack for attack in broker["attacks"]}
    for broker in json.loads((DOCS / "results" / "hostile.json").read_text())["brokers"]
)


def test_a_bystander_and_the_broker_stand_a_little_of_every_attack(tmp_path: Path) -> None:
    outcomes = run_hostile(tmp_path, 0, lambda _: None, small=True)
    assert [o.attack for o in outcomes] == [attack.name for attack in (*ATTACKS, *LOGIN_ATTACKS)]
    for outcome in outcomes:
        assert broken(replace(outcome, worst_s=0.0)) == [], outcome
        assert outcome.worst_s < UNHURRIED_S, outcome
    responded = {outcome.attack: outcome.responded for outcome in outcomes}
    assert responded["partitions of a topic"] == "error codes [0, 44]"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"worst_s": 60.0, "silent": True}, "no heartbeat was answered for 60 s"),
        ({"worst_s": WORST_S + 0.1}, "a heartbeat took 1.10 s"),
        ({"memory_mb": MEMORY_MB + 1}, "301 MB of memory"),
        ({"unbounded": "a frame of 9 bytes is awaited"}, "a frame of 9 bytes is awaited"),
        ({"descriptors": 2}, "2 descriptors left open"),
        ({"tracebacks": 3}, "3 tracebacks"),
    ],
)
def test_each_bound_is_checked(change: dict[str, float], words: str) -> None:
    fair = AttackOutcome("connections", 10, "10 open", 1.0, WORST_S, MEMORY_MB, 0, 0, 100)
    assert ", ".join(broken(replace(fair, **change))) == words  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attack", "changes", "switch", "words"),
    [
        ("frames before a login", {}, "unreadable", "tracebacks"),
        ("frames after a login", {}, "unreadable", "tracebacks"),
        ("half-open connections of TLS", _UNAUTHENTICATED, "", "60 connections without a login are still open"),
        ("handshakes of TLS, a byte at a time", _UNAUTHENTICATED, "", "20 connections without a login are still open"),
        ("renegotiations of TLS", {}, "renegotiation", "1 of 1 renegotiations are not refused"),
        (
            "requests half sent before a login",
            {"sasl.server.max.receive.size": str(2**31 - 1)},
            "",
            "a request of 524289 bytes is awaited before a login",
        ),
        ("iterations of SCRAM", {}, "iterations", "a credential of 16,385 iterations is accepted"),
    ],
)
def test_each_attack_sees_its_bound_switched_off(
    tmp_path: Path, attack: str, changes: dict[str, str], switch: str, words: str
) -> None:
    (row,) = (row for row in LOGIN_ATTACKS if row.name == attack)
    command = ("coterie_conformance.hostile.unbounded", switch, "broker") if switch else ("coterie", "broker")
    with secured_target(tmp_path, changes, command) as target:
        (outcome,) = run_attacks(target, tmp_path, 0, lambda _: None, [(row, row.small)])
    assert words in outcome.wrong


def test_every_attack_on_logins_has_its_bound_switched_off() -> None:
    test = test_each_attack_sees_its_bound_switched_off
    (cases,) = (mark.args[1] for mark in test.pytestmark)  # type: ignore[attr-defined]
    assert [case[0] for case in cases] == [attack.name for attack in LOGIN_ATTACKS]


def test_a_broker_that_answers_no_more_ends_the_wait(tmp_path: Path) -> None:
    """Apache Kafka with 1 GB of heap does so for many minutes under half-sent requests of 100 MB."""
    with coterie_target(tmp_path / "broker") as target:
        assert target.pid is not None
        pid = target.pid

        def stop_the_process(address: Address, amount: int, rng: random.Random) -> str:
            os.kill(pid, signal.SIGSTOP)
            return "stopped"

        bystander = Bystander(target.address, tmp_path / "heartbeats")
        try:
            outcome = carry_out(Attack("a stop", stop_the_process, 1, 1), 1, target, bystander, 0, silent_after_s=1.0)
        finally:
            os.kill(pid, signal.SIGCONT)
            bystander.stop()
    assert outcome.silent
    assert outcome.wrong.startswith("no heartbeat was answered for 1 s")


Outcome = dict[str, Any]


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
