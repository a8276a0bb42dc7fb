"""The study's answers in words. Every figure comes from the cells, so a study with other seeds says its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.laboratory.study.spread import Cell


class Cells:
    """One question's cells, asked for by name."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = cells
        self._by_name = {(c.workload, c.setting, c.members): c for c in cells}

    def mean(self, workload: str, setting: str, measure: str, members: int | None = None) -> float:
        """Raises KeyError for a cell that is not there."""
        size = self.cells[0].members if members is None else members
        return self._by_name[workload, setting, size].mean(measure)

    def say(self, workload: str, setting: str, measure: str, members: int | None = None) -> str:
        value = self.mean(workload, setting, measure, members)
        if value >= 100 or value == int(value):
            return f"{value:,.0f}"
        return f"{value:.1f}" if value >= 1 else f"{value:.2f}"

    def largest(self, setting: str, workload: str) -> int:
        """Of the groups that had come to rest."""
        return max(
            (c.members for c in self.cells if (c.setting, c.workload) == (setting, workload) and c.mean("formed") == 1),
            default=0,
        )


def blocking(c: Cells) -> list[str]:
    def pause(setting: str, workload: str = "one joins") -> str:
        return c.say(workload, setting, "pause_s")

    return [
        (
            "**It depends on who has to give something back.** When one consumer joins, an eager group stops as "
            "a whole: all "
            f"{c.say('one joins', 'eager', 'paused_members')} that were there own nothing for {pause('eager')} s "
            "on average, "
            "because each hears of the rebalance only with its next heartbeat and all wait for the last. A "
            "cooperative group "
            f"goes on: {c.say('one joins', 'cooperative', 'paused_members')} pause, and a partition is unread for "
            f"{c.say('one joins', 'cooperative', 'unowned_s')} s on average against "
            f"{c.say('one joins', 'eager', 'unowned_s')} "
            f"s; in return it takes {c.say('one joins', 'cooperative', 'agree_s')} s instead of "
            f"{c.say('one joins', 'eager', 'agree_s')} s until all is settled, since there are two rounds. ZooKeeper's "
            f"consumers stop all as well, but for {pause('ZooKeeper')} s: watches tell everybody at once. "
            "RocketMQ's stop "
            f"nobody: only what moves is unread, for {c.say('one joins', 'RocketMQ', 'unowned_s')} s."
        ),
        (
            "**What a death costs is mostly the time until it is known.** A killed consumer's partitions are "
            "unread for "
            f"{c.say('one is killed', 'eager', 'longest_unowned_s')} s with Kafka's default session timeout of 45 "
            "s (10 s "
            f"before Kafka 3.0), {c.say('one is killed', 'ZooKeeper', 'longest_unowned_s')} s with ZooKeeper's of "
            "6 s, and "
            f"{c.say('one is killed', 'RocketMQ', 'longest_unowned_s')} s with RocketMQ, whose brokers take a closed "
            "connection for a goodbye. When the machine is lost and nobody closes the connection, RocketMQ is "
            "the slowest of "
            f"all: {c.say('one machine is lost', 'RocketMQ', 'longest_unowned_s')} s, its brokers' 120 s less "
            "what had passed "
            "since the last heartbeat. Orderly consumption pays for a kill too: the dead one's locks are held "
            "for up to 60 s "
            f"({c.say('one is killed', 'RocketMQ, orderly', 'longest_unowned_s')} s here)."
        ),
        (
            "**A static group does not rebalance for a restart at all**: in a rolling restart nobody pauses, and each "
            f"partition is unread for the {c.say('rolling restart', 'static', 'unowned_s')} s that its consumer "
            "is away, "
            f"against {c.say('rolling restart', 'eager', 'unowned_s')} s under eager, "
            f"{c.say('rolling restart', 'cooperative', 'unowned_s')} s under cooperative, "
            f"{c.say('rolling restart', 'ZooKeeper', 'unowned_s')} s with ZooKeeper and "
            f"{c.say('rolling restart', 'RocketMQ', 'unowned_s')} s with RocketMQ. The price is that a static "
            "consumer which "
            "leaves for good is missed only when its session is over: "
            f"{c.say('one leaves', 'static', 'longest_unowned_s')} s."
        ),
    ]


def join_protocol(c: Cells) -> list[str]:
    bare, ids, delay = "no member ids, no delay", "+ member id required", "+ initial delay 3 s"

    def count(workload: str, setting: str) -> str:
        return c.say(workload, setting, "rebalances")

    def ghosts(workload: str) -> str:
        return f"{c.say(workload, bare, 'false_alarms')} against {c.say(workload, ids, 'false_alarms')}"

    return [
        (
            "Each step of the ladder adds to the ones before, on the same churn; 2 % of Kafka's requests lose "
            "their connection, "
            "since that is what member ids were made for. (ZooKeeper's and RocketMQ's rebalances are counted per "
            "consumer, "
            "since each does its own, and are no part of the ladder.)"
        ),
        (
            "**Member ids** (KIP-394) do not make rebalances fewer; they keep ghosts out. Without them a "
            "JoinGroup whose answer "
            "is lost leaves a member that nobody is: it is given partitions and found out when its session is "
            "over. Members "
            f"taken for dead in a rolling restart: {ghosts('rolling restart')}; in a deployment: "
            f"{ghosts('deployment')}. A "
            f"partition is unread for {c.say('deployment', bare, 'unowned_s')} s in a deployment without them and "
            f"{c.say('deployment', ids, 'unowned_s')} s with them."
        ),
        (
            "**The initial delay** helps a group that comes up, and only that: a deployment of 12 takes "
            f"{count('deployment', ids)} rebalances without it and {count('deployment', delay)} with it. It is "
            "paid for in "
            f"time: partitions wait {c.say('deployment', delay, 'unowned_s')} s for their first reader instead of "
            f"{c.say('deployment', ids, 'unowned_s')} s."
        ),
        (
            "**Cooperative rebalancing makes more rebalances, not fewer** "
            f"({count('rolling restart', '+ cooperative')} against {count('rolling restart', delay)} in a rolling "
            "restart), and "
            f"each costs less: {c.say('rolling restart', '+ cooperative', 'unowned_s')} s unread per partition against "
            f"{c.say('rolling restart', delay, 'unowned_s')} s, "
            f"{c.say('rolling restart', '+ cooperative', 'moved')} partitions "
            f"moved against {c.say('rolling restart', delay, 'moved')}."
        ),
        (
            "**Static members are the one change that does away with rebalances**: "
            f"{count('rolling restart', '+ static (eager)')} in a rolling restart. For crashes it depends on who "
            "is faster: "
            "those who are back within the session timeout cause none, those who are not cost what they always did "
            f"({count('crashes, 4 hours', '+ static (eager)')} against {count('crashes, 4 hours', delay)} in four "
            "hours in "
            "which consumers are away for half a minute to two)."
        ),
    ]


def kafka_and_rocketmq(c: Cells) -> list[str]:
    def duplicates(workload: str, setting: str) -> str:
        return c.say(workload, setting, "duplicates")

    roll, lost = "rolling restart", "one joins, notices lost"
    return [
        (
            "**RocketMQ is faster while everybody talks to everybody, and agrees on nothing.** In a rolling "
            "restart a partition "
            f"is unread for {c.say(roll, 'RocketMQ', 'unowned_s')} s in all against "
            f"{c.say(roll, 'eager', 'unowned_s')} s "
            f"(eager) and {c.say(roll, 'cooperative', 'unowned_s')} s (cooperative), and nobody waits for the "
            "slowest. But a "
            "queue's next reader asks for its offset without knowing whether the former one has stored it: "
            f"{duplicates(roll, 'RocketMQ')} records come twice, {duplicates(roll, 'eager')} under Kafka's eager "
            "protocol, "
            "where everybody commits before anything is given out, and "
            f"{duplicates(roll, 'RocketMQ, orderly')} with RocketMQ's orderly consumption, whose lock serves the "
            "same end."
        ),
        (
            "**Its duplicate window is as long as its views differ.** When what the brokers tell of a change is "
            "lost, the "
            "former reader goes on until its own next look, 20 s later at most: "
            f"{duplicates(lost, 'RocketMQ')} records twice, "
            f"{duplicates(lost, 'RocketMQ, orderly')} with locks. Kafka has no such "
            "window: a partition has one owner per generation, and an old one's commit is refused. Its window is "
            "what was read "
            f"since the last commit when somebody dies: {duplicates('one is killed', 'eager')} records here, "
            f"{duplicates('one is killed', 'RocketMQ')} with RocketMQ, and ZooKeeper's consumer adds a third "
            "kind: cut off from "
            f"ZooKeeper but not from the brokers it reads on, {duplicates('one is cut off, 80 s', 'ZooKeeper')} "
            "records twice."
        ),
        (
            "**A slow consumer costs the others nothing with RocketMQ and a rebalance with Kafka.** One that "
            "stands still for "
            "80 s is thrown out after 45 s by Kafka: the others pause "
            f"{c.say('one stands still, 80 s', 'eager', 'pause_s')} s "
            f"each (eager; {c.say('one stands still, 80 s', 'cooperative', 'pause_s')} s cooperative), and what "
            "it had is "
            f"unread for {c.say('one stands still, 80 s', 'eager', 'longest_unowned_s')} s. RocketMQ waits for "
            "120 s, so "
            "nobody notices, and its queues are unread for "
            f"{c.say('one stands still, 80 s', 'RocketMQ', 'longest_unowned_s')} s."
        ),
        (
            "**The load is elsewhere.** A rolling restart costs "
            f"{c.say(roll, 'eager', 'kilobytes')} kB with Kafka and {c.say(roll, 'RocketMQ', 'kilobytes')} kB "
            "with RocketMQ, "
            "whose clients fetch the whole list of the group at every look, from every broker's point of view "
            "anew; ZooKeeper's "
            f"take {c.say(roll, 'ZooKeeper', 'messages')} messages for it against {c.say(roll, 'eager', 'messages')}."
        ),
    ]


def timeouts(c: Cells) -> list[str]:
    def at(seconds: int, measure: str, setting: str = "eager") -> str:
        return c.say(f"session {seconds} s", setting, measure)

    best = min((6, 10, 20, 30, 45, 90), key=lambda s: c.mean(f"session {s} s", "eager", "unowned_s"))
    return [
        (
            "For an hour each consumer stands still three times, for 8 s on average (a long collection of "
            "garbage, a machine "
            "that is moved), and two of the twelve die. **The session timeout is the trade itself**: at 6 s a "
            "death is known "
            f"after {at(6, 'detection_s')} s and {at(6, 'false_alarms')} living members are thrown out; at 20 s "
            f"{at(20, 'detection_s')} s and {at(20, 'false_alarms')}; at 45 s {at(45, 'detection_s')} s and "
            f"{at(45, 'false_alarms')}. False alarms are not free: at 6 s partitions are unread for "
            f"{at(6, 'unowned_s')} s in the hour and {at(6, 'duplicates')} records come twice; at 30 s "
            f"{at(30, 'unowned_s')} s and {at(30, 'duplicates')}; at 90 s deaths cost more than alarms did: "
            f"{at(90, 'unowned_s')} s. The least unread on that churn is at {best} s. RocketMQ shows that "
            "a closed connection is a better witness of a killed process than any timeout "
            f"({c.say('connections, 120 s', 'RocketMQ', 'detection_s')} s, no alarms), and question 3 that it is "
            "none of a "
            "lost machine."
        ),
        "**The heartbeat interval is not a matter of detection** as long as it is a third of the session "
        "timeout; it is how "
        "soon members hear of a rebalance. One joins: "
        + ", ".join(
            f"{c.say(f'heartbeat {s} s', 'eager', 'agree_s')} s until all agree at {s} s "
            f"({c.say(f'heartbeat {s} s', 'eager', 'idle_per_s')} messages/s at rest)"
            for s in (1, 3, 10)
        )
        + ".",
        (
            "**max.poll.interval.ms is the session timeout of one's own code**: a consumer whose code takes 400 "
            "s is dropped "
            "after 60 s, and its partitions are unread for "
            f"{c.say('max poll interval 60 s', 'eager', 'longest_unowned_s')} s; "
            f"at 300 s for {c.say('max poll interval 300 s', 'eager', 'longest_unowned_s')} s; at 900 s nobody "
            "notices, and "
            f"they wait {c.say('max poll interval 900 s', 'eager', 'longest_unowned_s')} s. The work that it was "
            "doing is done "
            "again by another in the first two cases."
        ),
        "**The initial delay** buys fewer rebalances in a deployment with a later start: "
        + ", ".join(
            f"{_times(c.say(f'initial delay {s} s', 'eager', 'rebalances'))} with {s} s, the first reader after "
            f"{c.say(f'initial delay {s} s', 'eager', 'unowned_s')} s"
            for s in (0, 1, 3, 10)
        )
        + ".",
    ]


def growth(c: Cells) -> list[str]:
    top = {s: c.largest(s, "one joins") for s in ("eager", "cooperative", "ZooKeeper", "RocketMQ")}

    def at(setting: str, measure: str, members: int) -> str:
        return c.say("one joins", setting, measure, members)

    n = min(top["eager"], top["RocketMQ"])
    return [
        (
            f"One consumer joins a group of n, with two partitions each. **Kafka grows with n**: of {n:,} members "
            "each says "
            f"JoinGroup and SyncGroup once per round, {at('eager', 'caused', n)} messages beyond what the group "
            "sends at rest, "
            f"and the leader gets everybody's subscription in one answer; it takes {at('eager', 'agree_s', n)} s, "
            "hardly more "
            f"than the {at('eager', 'agree_s', 3)} s of a group of three, since it is the heartbeat interval that "
            "it waits for."
        ),
        (
            f"**RocketMQ grows with n squared, in bytes**: every client fetches the list of all clients, "
            f"{_mega(c.mean('one joins', 'RocketMQ', 'kilobytes', n))} MB in the minute after a join at {n:,} against "
            f"{_mega(c.mean('one joins', 'eager', 'kilobytes', n))} MB, and does so every 20 s whether anything "
            "changed or not "
            f"({at('RocketMQ', 'idle_per_s', n)} messages/s at rest, {at('eager', 'idle_per_s', n)} for Kafka). "
            "It still agrees "
            f"in {at('RocketMQ', 'agree_s', n)} s, because nobody waits for anybody."
        ),
        "**ZooKeeper's consumer does not grow.** Every member reads every registration at every change: n "
        "squared reads, "
        f"{at('ZooKeeper', 'caused', min(300, top['ZooKeeper']))} messages for one join at "
        f"{min(300, top['ZooKeeper']):,} members. Beyond some hundred members reading alone takes longer than the four "
        "attempts that a consumer makes 2 s apart, so that consumers give up and leave their share unread"
        + (f" ({at('ZooKeeper', 'gave_up', top['ZooKeeper'])} of {top['ZooKeeper']:,})" if top["ZooKeeper"] else "")
        + f"; the largest size here whose groups all came to rest within a quarter of an hour was {top['ZooKeeper']:,}. That "
        "is what the group coordinator was invented to cure.",
    ]


def _times(count: str) -> str:
    return "one rebalance" if count == "1" else f"{count} rebalances"


def _mega(kilobytes: float) -> str:
    return f"{kilobytes / 1000:,.0f}" if kilobytes >= 10_000 else f"{kilobytes / 1000:.1f}"


def traces(c: Cells) -> list[str]:
    return [
        (
            "Members come and go as a trace says; those who go are killed. Static members gain nothing where "
            "nobody comes back "
            "under the same name."
        )
    ]


ANSWERS: dict[int, Callable[[Cells], list[str]]] = {
    1: blocking,
    2: join_protocol,
    3: kafka_and_rocketmq,
    4: timeouts,
    5: growth,
    6: traces,
}
