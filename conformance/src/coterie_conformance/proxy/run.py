"""The same clients with and without a proxy, on Apache Kafka and on coterie: what passes without it has to pass with it; and
the fault hooks of a proxy on a cluster that runs, each shown once."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.client import TopicPartition
from coterie.client.blocking import BlockingAdmin, BlockingConsumer
from coterie.testing import LocalProxy
from coterie.text.addresses import format_address
from coterie_conformance.clients.programs import PROGRAMS, Program, compare, environment, is_whole, run_script
from coterie_conformance.proxy.verifiable import check_verifiable
from coterie_conformance.servers.coterie_process import CoterieBroker
from coterie_conformance.servers.kafka import end, running
from coterie_conformance.servers.programs import go_program

TOPIC, PARTITIONS = "struck", 2
FIRST = TopicPartition(TOPIC, 0)
DELAY_MS, WAIT_S = 1000, 30.0
Consume = BlockingConsumer[bytes, bytes]
HERE = Path(__file__).parent
CHAIN_LIMIT_S = 900.0
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
KGO = "franz-go"
# Two alterations reach the broker one after the other: its description between them is no difference by the proxy.
RACING = frozenset({"the broker's settings after that"})
BROKERS = ("Apache Kafka", "coterie")


def _check_faults(upstream: str) -> Iterator[tuple[str, str]]:
    """Name, and what is wrong, of each hook."""
    with BlockingAdmin({"bootstrap.servers": upstream}) as admin:
        admin.create_topic(TOPIC, PARTITIONS, replication_factor=1)
    for name, strike in STRIKES.items():
        word = name.split()[0]
        with LocalProxy(upstream) as proxy:
            settings = {"bootstrap.servers": proxy.bootstrap_servers, "group.id": f"struck-{word}", "client.id": word}
            with BlockingConsumer(settings | {"auto.offset.reset": "earliest"}) as consumer:
                consumer.subscribe([TOPIC])
                _assigned(consumer)
                yield f"fault: {name}", "" if strike(proxy, consumer) else "it had no effect"


def _assigned(consumer: Consume) -> None:
    end_s = time.monotonic() + WAIT_S
    while not consumer.assignment() and time.monotonic() < end_s:
        consumer.poll(100)


def _commit_takes_s(consumer: Consume) -> float:
    began_s = time.monotonic()
    consumer.commit({(TOPIC, 0): 0})
    return time.monotonic() - began_s


def _fail(proxy: LocalProxy, consumer: Consume) -> bool:
    before = proxy.requested("OffsetCommit")
    proxy.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=2, group="struck-fail")
    consumer.commit({(TOPIC, 0): 0})
    return proxy.requested("OffsetCommit") - before == 3


def _delay(proxy: LocalProxy, consumer: Consume) -> bool:
    proxy.delay("OffsetCommit", DELAY_MS, times=1)
    return _commit_takes_s(consumer) >= DELAY_MS / 1000


def _lose(proxy: LocalProxy, consumer: Consume) -> bool:
    """The commit is made, its response never comes: the heartbeat behind it has none either."""
    with BlockingAdmin({"bootstrap.servers": proxy.bootstrap_servers}) as admin:
        proxy.lose_response("OffsetCommit", times=1)
        consumer.commit_async({(TOPIC, 0): 1})
        end_s = time.monotonic() + WAIT_S
        while admin.list_consumer_group_offsets("struck-lose").get(FIRST) != 1 and time.monotonic() < end_s:
            consumer.poll(100)
        return admin.list_consumer_group_offsets("struck-lose").get(FIRST) == 1


def _cut(proxy: LocalProxy, consumer: Consume) -> bool:
    before = proxy.requested("OffsetCommit")
    proxy.cut("OffsetCommit", client_id="cut", times=1)
    consumer.commit({(TOPIC, 0): 0})
    return proxy.requested("OffsetCommit") - before == 2


def _drop(proxy: LocalProxy, consumer: Consume) -> bool:
    dropped = proxy.drop_connections("drop")
    consumer.commit({(TOPIC, 0): 0})
    return dropped > 0


def _hold(proxy: LocalProxy, consumer: Consume) -> bool:
    with proxy.hold("OffsetCommit", group="struck-hold") as rule:
        consumer.commit_async({(TOPIC, 0): 0})
        end_s = time.monotonic() + WAIT_S
        while not rule.held and time.monotonic() < end_s:
            consumer.poll(50)
        is_held = bool(rule.held)
    consumer.commit({(TOPIC, 0): 0})
    return is_held


# The first word is the client's id.
STRIKES: dict[str, Callable[[LocalProxy, Consume], bool]] = {
    "fail two commits": _fail,
    "delay a commit": _delay,
    "lose the response to a commit": _lose,
    "cut the connection of a commit": _cut,
    "drop all connections of a client": _drop,
    "hold a commit": _hold,
}


Steps = list[dict[str, Any]]


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
                    results[0] |= dict.fromkeys(faults := dict(_check_faults(upstream)), "")
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
