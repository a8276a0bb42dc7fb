"""The stories: what happens to a group, and the cause that an observer and a proxy have to name. What a script does to its
group is the ground truth: every other cause that is marked observed is a wrong one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from coterie.observer.observation import TOPICS_EVERY_S
from coterie_conformance.observer.story_group import StoryGroup

Script = Callable[[StoryGroup], Awaitable[None]]
CREW = ("anna", "ben", "cleo")
ENDS = ("stable", "empty", "epoch_raised")
PATTERN = ("pattern_seen",)
POLL_MS, POLL_S = "20000", 20.0


class CauseStory(NamedTuple):
    """``kind``, ``rule`` and ``who`` of the cause that a line of one of the ``events`` has; "" for any. ``is_hidden``: from
    outside nothing tells it. ``protocol``: consumer (KIP-848), share (KIP-932) or streams (KIP-1071)."""

    name: str
    client: str
    script: Script
    kind: str
    who: str = ""
    events: tuple[str, ...] = ENDS
    rule: str = ""
    is_hidden: bool = False
    protocol: str = "classic"


async def kill(g: StoryGroup) -> None:
    """SIGKILL to one of three."""
    await g.crew(*CREW)
    g.kill("ben")


async def leave(g: StoryGroup) -> None:
    """SIGTERM to one of three."""
    await g.crew(*CREW)
    g.leave("ben")


async def slow_poll(g: StoryGroup) -> None:
    """Ben does not poll for longer than max.poll.interval.ms."""
    g.settings["max.poll.interval.ms"] = POLL_MS
    await g.crew("anna", "ben")
    g.sleep("ben", POLL_S + 20)


async def stuck_callback(g: StoryGroup) -> None:
    """Ben's callback is longer than the rebalance timeout."""
    g.settings["max.poll.interval.ms"] = POLL_MS
    await g.crew("anna", "ben")
    g.callback("ben", POLL_S + 15)
    await g.start("cleo")


async def deploy(g: StoryGroup) -> None:
    """Each member is restarted, one after the other."""
    await g.crew(*CREW)
    for name in CREW:
        await g.restart(name)
        await g.stable(3)
    g.may("deploy")


async def static_restart(g: StoryGroup) -> None:
    """Its session is longer than a start of Java takes on a busy machine."""
    g.is_static = True
    g.settings["session.timeout.ms"] = "45000"
    await g.crew("anna", "ben")
    g.kill("ben", is_noticed=False)
    await g.start("ben")


async def static_death(g: StoryGroup) -> None:
    """A static member is killed, and does not come back."""
    g.is_static = True
    await g.crew("anna", "ben")
    g.kill("ben")


async def fenced_instance(g: StoryGroup) -> None:
    """A supervisor starts each of two processes with one id again."""
    g.is_static = True
    await g.crew("anna", "ben")
    for _ in range(2):
        await g.start("ben")
        await asyncio.sleep(4)
    g.may("instance_fenced", "ben")


async def added_partitions(g: StoryGroup) -> None:
    """The topic gets more partitions."""
    await g.crew("anna", "ben")
    await g.add_partitions()


async def regex_gains_topic(g: StoryGroup) -> None:
    """A topic that matches the subscription is created."""
    g.topics = f"^{g.topic}.*"
    await g.crew("anna", "ben")
    await asyncio.sleep(TOPICS_EVERY_S + 2)  # the observer has seen that there is no such topic
    await g.create_topic(f"{g.topic}-late")
    g.may("regex_resolved")
    for name in g.members:
        g.may("subscription_changed", name)  # its own topics, as its JoinGroup has them


async def changed_subscription(g: StoryGroup) -> None:
    """Ben subscribes to another topic too, which was there before."""
    await g.create_topic(f"{g.topic}-audits")
    await g.crew("anna", "ben")
    g.subscribe("ben", f"{g.topic},{g.topic}-audits")


async def coordinator_moved(g: StoryGroup) -> None:
    """The broker that coordinates the group stops in order."""
    await g.crew("anna", "ben")
    await g.cluster.stop_second()
    g.may("coordinator_lost")
    for name in g.members:
        g.may("leader_rejoined", name)  # as sarama's does, which joins again where its connection ends


async def protocol_upgrade(g: StoryGroup) -> None:
    """The first bounce to cooperative rebalancing, half-way: two of four members support both assignors."""
    g.settings["partition.assignment.strategy"] = g.cluster.assignor("Range")
    await g.crew(*CREW, "dora")
    g.settings["partition.assignment.strategy"] = ",".join(map(g.cluster.assignor, ("CooperativeSticky", "Range")))
    for name in ("anna", "ben"):
        await g.restart(name)
        await g.stable(4)
    g.may("deploy")


async def stranger(g: StoryGroup) -> None:
    """An administrator commits for a group without members."""
    await g.crew("anna")
    g.leave("anna")
    await g.empty()
    await g.commit()


async def flapping(g: StoryGroup) -> None:
    """One member comes and goes."""
    await g.crew(*CREW)
    for _ in range(3):
        await g.restart("ben")
        await g.stable(3)
    g.may("member_flaps", "ben")


async def stuck_sync(g: StoryGroup) -> None:
    """The leader's SyncGroup takes long, by the fault hook of a proxy before the proxy."""
    g.address = g.cluster.faulty.bootstrap_servers
    g.settings["session.timeout.ms"] = "30000"  # heartbeats of its connection wait too
    await g.crew("anna")
    with g.cluster.faulty.hold("SyncGroup", group=g.group, client_id="anna"):
        await g.start("ben")
        await g.assigning(2)
        await asyncio.sleep(14)
    g.may("slow_sync", "anna")


async def paused(g: StoryGroup) -> None:
    """SIGSTOP to one of three."""
    await g.crew(*CREW)
    g.pause("ben")


async def idle_kill(g: StoryGroup) -> None:
    """Nothing is committed."""
    g.is_fed = False
    await g.crew("anna", "ben")
    await asyncio.sleep(8)
    g.kill("ben")


async def consumer_upgrade(g: StoryGroup) -> None:
    """Half-way from the classic protocol to KIP-848."""
    await g.crew("anna", "ben")
    g.leave("ben")
    await g.stable(1)
    g.protocol = "consumer"
    await g.start("ben")
    g.may("upgraded")


THIRTY = (
    CauseStory("kill", "Java", kill, "session_timeout", "ben"),
    CauseStory("kill", "librdkafka", kill, "session_timeout", "ben"),
    CauseStory("kill", "sarama", kill, "session_timeout", "ben"),
    CauseStory("kill", "coterie", kill, "session_timeout", "ben"),
    CauseStory("clean leave", "Java", leave, "member_left", "ben"),
    CauseStory("clean leave", "sarama", leave, "member_left", "ben"),
    CauseStory("clean leave", "coterie", leave, "member_left", "ben"),
    CauseStory("slow poll", "Java", slow_poll, "member_left", "ben", rule="poll_interval_passed"),
    CauseStory("slow poll", "librdkafka", slow_poll, "member_left", "ben", rule="poll_interval_passed"),
    CauseStory("slow poll", "coterie", slow_poll, "member_left", "ben", rule="poll_interval_passed"),
    CauseStory("stuck callback", "Java", stuck_callback, "rebalance_timeout", "ben"),
    CauseStory("stuck callback", "librdkafka", stuck_callback, "rebalance_timeout", "ben"),
    CauseStory("stuck callback", "coterie", stuck_callback, "rebalance_timeout", "ben"),
    CauseStory("deploy", "Java", deploy, "deploy", events=PATTERN),
    CauseStory("deploy", "sarama", deploy, "deploy", events=PATTERN),
    CauseStory("static restart", "Java", static_restart, "static_member_returned", "ben", ("member_replaced",)),
    CauseStory("static restart", "librdkafka", static_restart, "static_member_returned", "ben", ("member_replaced",)),
    CauseStory("static death", "coterie", static_death, "session_timeout", "ben"),
    CauseStory("fenced instance", "librdkafka", fenced_instance, "instance_fenced", "ben", PATTERN),
    CauseStory("added partitions", "sarama", added_partitions, "topic_metadata_changed"),
    CauseStory("added partitions", "Java", added_partitions, "topic_metadata_changed"),
    CauseStory("regex gains a topic", "librdkafka", regex_gains_topic, "regex_resolved"),
    CauseStory("changed subscription", "coterie", changed_subscription, "subscription_changed", "ben"),
    CauseStory("coordinator moved", "sarama", coordinator_moved, "", events=("coordinator_moved",)),
    CauseStory("protocol upgrade half-way", "Java", protocol_upgrade, "deploy", events=PATTERN),
    CauseStory("commit by a stranger", "librdkafka", stranger, "commit_by_stranger", events=PATTERN),
    CauseStory("flapping member", "sarama", flapping, "member_flaps", "ben", PATTERN),
    CauseStory("stuck sync", "coterie", stuck_sync, "slow_sync", events=PATTERN),
    CauseStory("paused machine", "librdkafka", paused, "session_timeout", "ben"),
    CauseStory("idle member killed", "sarama", idle_kill, "session_timeout", "ben", is_hidden=True),
)
OF_CONSUMERS = (
    CauseStory("kill", "Java", kill, "session_timeout", "ben", protocol="consumer"),
    CauseStory("clean leave", "librdkafka", leave, "member_left", "ben", protocol="consumer"),
    CauseStory("added partitions", "coterie", added_partitions, "topic_metadata_changed", protocol="consumer"),
    CauseStory(
        "upgrade to KIP-848 half-way", "Java", consumer_upgrade, "upgraded", events=("epoch_raised", "group_removed")
    ),
)
OF_SHARES_AND_STREAMS = tuple(
    CauseStory(name, "coterie", script, kind, who, protocol=protocol)
    for protocol in ("share", "streams")
    for name, script, kind, who in (
        ("clean leave", leave, "member_left", "ben"),
        ("added partitions", added_partitions, "topic_metadata_changed", ""),
    )
)
