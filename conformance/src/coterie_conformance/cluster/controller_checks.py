"""coterie as the controller of Apache Kafka's brokers, at work by the tools of Apache Kafka 2.6.3."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from coterie.client import Admin
from coterie_conformance.cluster.mixed import MixedCluster, wait_until
from coterie_conformance.cluster.replication_checks import fill, until_equal
from coterie_conformance.tools.run import JavaTools

TOPIC = "tooled"
_CLASSES = {
    "kafka-topics": "kafka.admin.TopicCommand",
    "kafka-reassign-partitions": "kafka.admin.ReassignPartitionsCommand",
    "kafka-leader-election": "kafka.admin.LeaderElectionCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
}
Settled = Callable[[MixedCluster], bool]


@dataclass(frozen=True, slots=True)
class ToolStep:
    """A command without its server, what it must print (a regular expression), and the state that the cluster comes to.
    ``before`` and ``after`` are other work, such as a broker that is restarted. ``{plan}`` in the command is a file with
    ``plan``: partition -> replicas."""

    command: str
    prints: str
    settles: Settled = lambda cluster: True
    plan: Mapping[int, Sequence[int]] | None = None
    before: Callable[[MixedCluster], Awaitable[None]] | None = None
    after: Callable[[MixedCluster], Awaitable[None]] | None = None


def _has_partitions(count: int) -> Settled:
    def settles(cluster: MixedCluster) -> bool:
        return len(cluster.assignment(TOPIC)) == count and cluster.are_in_sync(TOPIC) and _folders(cluster) == count * 3

    return settles


def _folders(cluster: MixedCluster) -> int:
    """Folders with a log of the topic's replicas: one that Kafka is about to delete has another name."""
    count = 0
    for number, replicas in cluster.assignment(TOPIC).items():
        count += sum(cluster.brokers[r].log_folder(f"{TOPIC}-{number}").is_dir() for r in replicas)
    return count


def _replicas_are(replicas: Sequence[int]) -> Settled:
    return lambda cluster: cluster.assignment(TOPIC).get(0) == tuple(replicas) and cluster.are_in_sync(TOPIC)


def _is_gone(cluster: MixedCluster) -> bool:
    log_dirs = [directory for broker in cluster.brokers.values() for directory in broker.log_dirs]
    return not cluster.assignment(TOPIC) and not any([*directory.glob(f"{TOPIC}-[0-9]")] for directory in log_dirs)


async def _fill(cluster: MixedCluster) -> None:
    await fill(cluster, TOPIC)


async def _equal(cluster: MixedCluster) -> None:
    await until_equal(cluster, TOPIC)


async def _all_show_whole_isrs(cluster: MixedCluster) -> None:
    """Brokers learn of a change of an ISR after ZooKeeper, from Kafka 2.6's leaders seconds later. Raises NotInTime."""

    async def do_show() -> bool:
        async for _, topics in cluster.ask_each(Admin.describe_topics):
            if any(partition.is_under_replicated for topic in topics.values() for partition in topic.partitions):
                return False
        return True

    await wait_until(do_show, "each broker shows all replicas in sync")


def steps(brokers: Sequence[int]) -> list[ToolStep]:
    """The steps on three brokers; their order is that of the replicas of a reassigned partition."""
    first, second, third = brokers
    create = f"kafka-topics --create --topic {TOPIC} --partitions 3 --replication-factor 3"

    async def restart_leader(cluster: MixedCluster) -> None:
        await asyncio.to_thread(cluster.stop, second)
        await wait_until(lambda: cluster.leader((TOPIC, 0)) not in (None, second), "another leader")
        await asyncio.to_thread(cluster.start, second)
        await wait_until(lambda: cluster.are_in_sync(TOPIC), "the ISR is whole")

    return [
        ToolStep(create, "Created topic tooled", _has_partitions(3), after=_fill),
        ToolStep(create, "already exists"),
        ToolStep(f"kafka-topics --describe --topic {TOPIC}", r"ReplicationFactor: 3[\s\S]*Partition: 2"),
        ToolStep("kafka-topics --describe --under-replicated-partitions", "^$", before=_all_show_whole_isrs),
        ToolStep(f"kafka-topics --alter --topic {TOPIC} --partitions 5", "^$", _has_partitions(5)),
        ToolStep(
            "kafka-reassign-partitions --execute --reassignment-json-file {plan}",
            "Successfully started partition reassignment",
            _replicas_are([second, third]),
            plan={0: [second, third]},
            after=_equal,
        ),
        ToolStep(
            "kafka-reassign-partitions --verify --reassignment-json-file {plan}",
            "Reassignment of partition tooled-0 is complete",
            plan={0: [second, third]},
        ),
        ToolStep(
            "kafka-reassign-partitions --execute --reassignment-json-file {plan}",
            "Successfully started partition reassignment",
            _replicas_are([second, first, third]),
            plan={0: [second, first, third]},
            after=_equal,
        ),
        ToolStep("kafka-reassign-partitions --list", "No partition reassignments found"),
        ToolStep(
            f"kafka-leader-election --election-type preferred --topic {TOPIC} --partition 0",
            "Successfully completed leader election",
            lambda cluster: cluster.leader((TOPIC, 0)) == second,
            before=restart_leader,
        ),
        ToolStep(
            f"kafka-leader-election --election-type preferred --topic {TOPIC} --partition 0",
            "already elected|not needed",
        ),
        ToolStep(f"kafka-topics --delete --topic {TOPIC}", "^$", _is_gone),
        ToolStep(create, "Created topic tooled", _has_partitions(3), after=_fill),
        ToolStep("kafka-topics --list", rf"(?m)^{TOPIC}$", after=_equal),
    ]


async def run_step(cluster: MixedCluster, tools: JavaTools, step: ToolStep) -> str:
    """Raises NotInTime, KafkaError."""
    if step.before is not None:
        await step.before(cluster)
    words = step.command.split()
    if step.plan is not None:
        file = cluster.folder / "plan.json"
        rows = [{"topic": TOPIC, "partition": number, "replicas": list(to)} for number, to in step.plan.items()]
        file.write_text(json.dumps({"version": 1, "partitions": rows}))
        words = [word.replace("{plan}", str(file)) for word in words]
    arguments = ["--bootstrap-server", cluster.bootstrap, *words[1:]]
    (output,) = await asyncio.to_thread(tools.execute, _CLASSES[words[0]], [arguments], limit_s=60.0)
    printed = f"{output.out}\n{output.err}".strip()
    if not re.search(step.prints, printed):
        return f"it printed {printed[:600]!r}, exit code {output.exit_code}"
    await wait_until(lambda: step.settles(cluster), lambda: f"after the command: {cluster.assignment(TOPIC)}")
    if step.after is not None:
        await step.after(cluster)
    return ""
