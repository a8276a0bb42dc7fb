"""The same clients with and without a proxy, on Apache Kafka and on coterie: what passes without it has to pass with it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.text.addresses import format_address
from coterie_conformance.clients.programs import PROGRAMS, Program, compare, environment, is_whole, run_script
from coterie_conformance.proxy.faults import check_faults
from coterie_conformance.proxy.verifiable import check_verifiable
from coterie_conformance.servers.coterie_process import CoterieBroker
from coterie_conformance.servers.go_programs import go_program
from coterie_conformance.servers.kafka import end, running

HERE = Path(__file__).parent
CHAIN_LIMIT_S = 900.0
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
KGO = "franz-go"
Steps = list[dict[str, Any]]
# Two alterations reach the broker one after the other: its description between them is no difference by the proxy.
RACING = frozenset({"the broker's settings after that"})
BROKERS = ("Apache Kafka", "coterie")


@dataclass(frozen=True, slots=True)
class ProxiedCheck:
    """``direct`` and ``proxied``: what is wrong, "" for nothing."""

    broker: str
    name: str
    direct: str
    proxied: str

    @property
    def is_worse(self) -> bool:
        """Whether it passes without the proxy alone."""
        return not self.direct and bool(self.proxied)


@contextlib.contextmanager
def before(upstream: str, folder: Path) -> Iterator[str]:
    """The address of `coterie proxy`, which observes groups too."""
    command = [sys.executable, "-m", "coterie", "proxy", "--upstream", upstream, "--journal", str(folder / "journal")]
    with (folder / "proxy.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().split()[-1]
    finally:
        end([process])


@contextlib.contextmanager
def _broker(name: str, version: str, folder: Path) -> Iterator[str]:
    """The address of a new one."""
    if name != "coterie":
        with running(version, folder, SETTINGS) as address:
            yield format_address(*address)
        return
    broker = CoterieBroker(folder / "data", SETTINGS)
    try:
        broker.start()
        yield format_address(*broker.address)
    finally:
        broker.stop()


def run_proxied(version: str, folder: Path, report: Callable[[ProxiedCheck], None]) -> list[ProxiedCheck]:
    """Raises CannotRun."""
    kgo = next(program for program in PROGRAMS if program.name == KGO)
    chain = go_program(HERE / "chain.go", *kgo.packages)
    checks: list[ProxiedCheck] = []
    for broker in BROKERS:
        results: list[dict[str, str]] = []
        steps: list[Steps] = []
        for side in ("direct", "proxied"):
            own = folder / broker.replace(" ", "-") / side
            own.mkdir(parents=True)
            with _broker(broker, version, own) as upstream, contextlib.ExitStack() as stack:
                address = upstream if side == "direct" else stack.enter_context(before(upstream, own))
                steps.append(run_script(environment(kgo), address, version))
                results.append(dict(_checks(version, address, chain, own / "clients.log")))
                if side == "proxied":
                    results[0] |= dict.fromkeys(faults := dict(check_faults(upstream)), "")
                    results[1] |= faults
        results[0] |= {f"{KGO}: {step['step']}": "" for step in steps[0]}
        results[1] |= _of_steps(kgo, version, *steps)
        for name, direct in results[0].items():
            checks.append(ProxiedCheck(broker, name, direct, results[1].get(name, "it was not reached")))
            report(checks[-1])
    return checks


def _checks(version: str, address: str, chain: Path, log: Path) -> Iterator[tuple[str, str]]:
    printed = subprocess.run(
        [str(chain), address, "chain"], capture_output=True, text=True, timeout=CHAIN_LIMIT_S, stdin=subprocess.DEVNULL
    )
    for line in printed.stdout.splitlines():
        result = json.loads(line)
        yield result["name"], result["wrong"]
    yield from check_verifiable(version, address, log)


def _of_steps(program: Program, version: str, direct: Steps, proxied: Steps) -> dict[str, str]:
    """By step what the script's result through the proxy differs in."""
    wrong = {f"{program.name}: {step['step']}": "" for step in proxied}
    for difference in (d for d in compare(version, direct, proxied) if d.step not in RACING):
        wrong[f"{program.name}: {difference.step}"] = (
            f"{difference.path}: {difference.theirs}, through it {difference.ours}"
        )
    assert is_whole(direct), "the script did not come to its end without a proxy"
    return wrong
