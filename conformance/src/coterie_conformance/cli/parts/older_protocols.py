"""The parts of `compare` for the protocols before and beside Kafka's: ZooKeeper's and RocketMQ's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from coterie.console.terminal import write_line, write_lines
from coterie.text.quantity import quantity
from coterie_conformance.servers.kafka import CannotRun

ALLOCATION_CASES = 5_000
CANNOT_RUN_EXIT = 3
RunChecks = Callable[[Callable[[str, str], None]], dict[str, bool]]


def zookeeper_part(folder: Path, results: list[dict[str, Any]], as_json: bool) -> int:
    """Our high-level consumer in one group with Apache Kafka's own, on Kafka's broker and on coterie's; and what clients of
    that age read from coterie. The exit code that this calls for."""
    from coterie_conformance.zookeeper import high_level_consumer, old_formats

    parts = [
        (broker, partial(high_level_consumer.run_checks, folder / broker.replace(" ", "-"), broker))
        for broker in high_level_consumer.BROKERS
    ]
    parts.append(
        (f"old formats beside Kafka {old_formats.BESIDE}", partial(old_formats.run_checks, folder / "formats"))
    )
    return max(_zookeeper_checks(name, run, results, as_json) for name, run in parts)


def _zookeeper_checks(name: str, run: RunChecks, results: list[dict[str, Any]], as_json: bool) -> int:
    def write_result(check: str, wrong: str) -> None:
        write_line(
            f"{'WRONG' if wrong else 'right'}  ZooKeeper, {name}: {check}{': ' + wrong if wrong else ''}", err=True
        )

    try:
        checks = run(write_result)
    except CannotRun as reason:
        write_line(f"SKIPPED ZooKeeper, {name}: {reason}", color="red", bold=True, err=True)
        results.append({"zookeeper": name, "skipped": str(reason)})
        return CANNOT_RUN_EXIT
    results.append({"zookeeper": name, "checks": checks})
    if not as_json:
        write_line(f"ZooKeeper, {name}: {sum(checks.values())} of {quantity(len(checks), 'check')} right")
    return 0 if all(checks.values()) else 1


def rocketmq_part(folder: Path, seed: int, results: list[dict[str, Any]], as_json: bool) -> int:
    """The strategies beside RocketMQ's own classes, and four consumers on real brokers with one killed, per version; the
    exit code that this calls for."""
    from coterie_conformance.rocketmq.servers import VERSIONS

    exit_code = 0
    for version in VERSIONS:
        try:
            one = _one_rocketmq(version, folder / f"rocketmq-{version}", seed)
        except CannotRun as reason:
            write_line(f"SKIPPED RocketMQ {version}: {reason}", color="red", bold=True, err=True)
            results.append({"rocketmq": version, "skipped": str(reason)})
            exit_code = exit_code or CANNOT_RUN_EXIT
            continue
        results.append(one)
        exit_code = 1 if one["failed"] else exit_code
        if not as_json:
            write_lines(_sentences(one))
    return exit_code


def _one_rocketmq(version: str, folder: Path, seed: int) -> dict[str, Any]:
    from coterie_conformance.rocketmq.allocation import NAMES, compare
    from coterie_conformance.rocketmq.servers import four_consumers, running

    one: dict[str, Any] = {"rocketmq": version, "failed": 0, "strategies": {}, "stories": {}}
    for name in NAMES:
        c = compare(version, name, ALLOCATION_CASES, seed)
        for failure in c.failures[:3]:
            write_line(f"{name}: {failure}", color="red", err=True)
        write_line(
            f"{'WRONG' if c.failures else 'right'}  strategy {name}: {quantity(c.cases, 'random input')}", err=True
        )
        one["strategies"][name] = {"cases": c.cases, "failed": len(c.failures)}
        one["failed"] += len(c.failures)
    with running(version, folder) as cluster:
        for kind in ("concurrently", "orderly"):
            story = four_consumers(cluster, orderly=kind == "orderly", topic=kind)
            for wrong in story.wrong:
                write_line(f"{kind}: {wrong}", color="red", err=True)
            what = f"{'WRONG' if story.wrong else 'right'}  four consumers, one killed, {kind}"
            write_line(f"{what}: owned again after {story.gap_ms} ms, {quantity(story.twice, 'duplicate')}", err=True)
            one["stories"][kind] = {
                "gap_ms": story.gap_ms,
                "delivered": story.delivered,
                "twice": story.twice,
                "wrong": story.wrong,
            }
            one["failed"] += len(story.wrong)
    return one


def _sentences(one: dict[str, Any]) -> list[str]:
    cases = sum(s["cases"] for s in one["strategies"].values())
    failed = sum(s["failed"] for s in one["strategies"].values())
    lines = [
        f"RocketMQ {one['rocketmq']}:",
        f"  strategies: {len(one['strategies'])}, {quantity(cases, 'random input')}, {failed} unlike its own classes",
    ]
    for kind, story in one["stories"].items():
        lines.append(
            f"  four consumers on two brokers, one killed, {kind}: queues owned again after {story['gap_ms'] / 1000:.1f} s, "
            f"{quantity(story['delivered'], 'message')} delivered, {story['twice']} of them twice, {len(story['wrong'])} wrong"
        )
    return lines
