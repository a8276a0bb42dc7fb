"""One attack after the other, each measured: the bystander's worst answer, memory, descriptors, the log."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coterie_conformance.hostile.attacks import ATTACKS, make_topics
from coterie_conformance.hostile.bystander import SILENT_AFTER_S, BrokerSilentError, Bystander
from coterie_conformance.hostile.logins import LOGIN_ATTACKS
from coterie_conformance.hostile.target import (
    Attack,
    AttackedBroker,
    BoundBrokenError,
    MemoryPeak,
    coterie_target,
    secured_target,
)

WORST_S = 1.0
MEMORY_MB = 300.0
SETTLE_S = 20.0
LOOK_EVERY_S = 0.1
SETTLED_AFTER = 5  # looks in a row


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """The cost of an attack. ``wrong`` names the bounds that it broke; empty where it broke none."""

    attack: str
    amount: int
    responded: str
    seconds: float
    worst_s: float
    memory_mb: float
    descriptors: int  # more than before
    tracebacks: int
    log_bytes: int
    silent: bool = False  # no heartbeat was answered any more; ``worst_s`` is how long that was waited for
    unbounded: str = ""  # the bound of the attack's own that was not held
    wrong: str = ""


def carry_out(
    attack: Attack,
    amount: int,
    target: AttackedBroker,
    bystander: Bystander,
    seed: int,
    silent_after_s: float = SILENT_AFTER_S,
) -> AttackOutcome:
    """One attack, measured, until a heartbeat is answered after it or ``silent_after_s`` are over."""
    descriptors, tracebacks, log_bytes = target.descriptors(), target.tracebacks(), target.log_bytes()
    since_s = time.time()
    with MemoryPeak(target) as peak:
        address = target.listeners.get(attack.listener, target.address)
        responded, unbounded, silent, worst_s = "", "", False, silent_after_s
        try:
            responded = attack.run(address, amount, random.Random(f"{seed}-{attack.name}"))
        except BoundBrokenError as broken_bound:
            unbounded = str(broken_bound)
        try:
            worst_s = bystander.worst_s(since_s, silent_after_s)
        except BrokerSilentError:
            silent = True
        left_open = 0 if silent else _left_open(target, descriptors)
    outcome = AttackOutcome(
        attack.name,
        amount,
        responded,
        seconds=round(time.time() - since_s, 1),
        worst_s=round(worst_s, 3),
        memory_mb=round(peak.mb),
        descriptors=left_open,
        tracebacks=target.tracebacks() - tracebacks,
        log_bytes=target.log_bytes() - log_bytes,
        silent=silent,
        unbounded=unbounded,
    )
    return AttackOutcome(**(asdict(outcome) | {"wrong": ", ".join(broken(outcome))}))


def _left_open(target: AttackedBroker, before: int) -> int:
    """The number of descriptors opened since before, once they have settled: the broker may still have connections to
    accept and to close."""
    ends_s, settled, more = time.monotonic() + SETTLE_S, 0, 0
    while settled < SETTLED_AFTER and time.monotonic() < ends_s:
        more = target.descriptors() - before
        settled = 0 if more > 0 else settled + 1
        time.sleep(LOOK_EVERY_S)
    return more


def broken(outcome: AttackOutcome) -> list[str]:
    """The bounds that were broken."""
    wrong = []
    if outcome.silent:
        wrong.append(f"no heartbeat was answered for {outcome.worst_s:.0f} s")
    elif outcome.worst_s > WORST_S:
        wrong.append(f"a heartbeat took {outcome.worst_s:.2f} s")
    if outcome.memory_mb > MEMORY_MB:
        wrong.append(f"{outcome.memory_mb:.0f} MB of memory")
    if outcome.descriptors > 0:
        wrong.append(f"{outcome.descriptors} descriptors left open")
    if outcome.unbounded:
        wrong.append(outcome.unbounded)
    if outcome.tracebacks:
        wrong.append(f"{outcome.tracebacks} tracebacks")
    return wrong


def run_attacks(
    target: AttackedBroker,
    folder: Path,
    seed: int,
    report: Callable[[AttackOutcome], None],
    attacks: Sequence[tuple[Attack, int]],
) -> list[AttackOutcome]:
    """One after the other against one broker that goes on running; those after one that silences it are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    make_topics(target.address)
    bystander = Bystander(target.address, folder / "heartbeats")
    outcomes = []
    try:
        for attack, amount in attacks:
            outcomes.append(carry_out(attack, amount, target, bystander, seed))
            report(outcomes[-1])
            if outcomes[-1].silent:
                break
    finally:
        bystander.stop()
    return outcomes


def run_hostile(
    folder: Path, seed: int, report: Callable[[AttackOutcome], None], *, small: bool = False
) -> list[AttackOutcome]:
    """All attacks against coterie, the ones on TLS and SASL against a broker of their own. Raises RuntimeError where one does
    not stop."""
    outcomes = []
    for part, opened, attacks in (("open", coterie_target, ATTACKS), ("secured", secured_target, LOGIN_ATTACKS)):
        amounts = [(attack, attack.small if small else attack.amount) for attack in attacks]
        with opened(folder / part) as target:
            outcomes += run_attacks(target, folder / part, seed, report, amounts)
    return outcomes


def run_hostile_on_kafka(
    version: str, folder: Path, seed: int, report: Callable[[AttackOutcome], None]
) -> list[AttackOutcome]:
    """The attacks that make sense there against Apache Kafka: only the bystander's latencies are measured. A fresh one is
    started after an attack that silences it. Raises CannotRun."""
    from coterie_conformance.servers.kafka import running

    attacks = [(attack, attack.amount) for attack in ATTACKS if attack.on_kafka]
    settings = {"group.initial.rebalance.delay.ms": "0"}
    outcomes: list[AttackOutcome] = []
    while len(outcomes) < len(attacks):
        started = folder / f"kafka-{len(outcomes)}"
        with running(version, started, settings) as address:
            outcomes += run_attacks(AttackedBroker(address), started, seed, report, attacks[len(outcomes) :])
    return outcomes


def as_figures(outcomes: Sequence[AttackOutcome]) -> list[dict[str, Any]]:
    """The outcomes as ``--json`` prints them."""
    return [asdict(outcome) for outcome in outcomes]
