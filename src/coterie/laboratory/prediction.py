"""What a deploy would cost a group: a rolling restart in virtual time, under the group's settings and under others, by the runs
of the study. A prediction is a function of (group, deploy, settings, seeds) and of nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from coterie.assignors import is_cooperative
from coterie.laboratory.deliveries import Ownership, TopicPartition
from coterie.laboratory.study.group import StudySetting
from coterie.laboratory.study.run import Measures, run
from coterie.laboratory.study.workload import Plan, rolling_restart
from coterie.text.phrase import Phrase, PhraseValue

SEEDS = 5
MEMBER_RESTARTS = 72  # restarts of a run times its members: a run takes a fifth of a second
LEAST_RESTARTS = 3
NETWORK_MS = (0, 2)  # between consumers and brokers of one data centre
BETTER_BY = 0.1  # of what the deploy costs today: less is not worth a change
NOTHING_S = 0.1  # unowned for so short a time is as good as owned
LATE_S, REST_S, MOST_DRIFT = 0.1, 135.0, 0.01
CONSUMER_SESSION_MS, CONSUMER_HEARTBEAT_MS = 45_000, 5_000  # the broker's defaults (KIP-848)


@dataclass(frozen=True, slots=True)
class CostSpread:
    """A measure over the seeds."""

    mean: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class Deploy:
    """Members are stopped one after the other: each is away for ``pause_ms``, and the next one stops ``gap_ms`` after it has
    joined again. ``removal``: leave (its consumer is closed) or kill (its process just ends). ``only_one``: a single member
    is restarted."""

    pause_ms: int = 8_000
    gap_ms: int = 30_000
    removal: str = "leave"
    only_one: bool = False

    def restarted(self, members: int) -> int:
        """How many of a group's members are restarted."""
        return min(members, 1) if self.only_one else members


@dataclass(frozen=True, slots=True)
class DeployedGroup:
    """A group at rest: its members and partitions, how many records a second each partition has, and its settings."""

    members: int
    partitions: int
    records_per_s: float
    setting: StudySetting


@dataclass(frozen=True, slots=True)
class PredictedCost:
    """What the deploy costs under one setting. ``change``: what to do for it, empty for today's. Times in seconds: unowned per
    partition over the whole deploy, and the longest time in which one partition was unowned. ``duplicates``: records of all
    partitions that are delivered twice; ``moved``: partitions that went to another member."""

    setting: str
    change: str
    rebalances: CostSpread
    unowned_s: CostSpread
    longest_unowned_s: CostSpread
    duplicates: CostSpread
    moved: CostSpread


@dataclass(frozen=True, slots=True)
class Prediction:
    """The costs under today's settings, then under each other one. ``restarts`` of the ``members`` were run, and their costs
    scaled to all of them."""

    members: int
    partitions: int
    restarts: int
    seeds: int
    costs: tuple[PredictedCost, ...]
    recommendation: str
    recommendation_phrase: Phrase


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another setting, and the ``steps`` that lead to it."""

    setting: StudySetting
    steps: tuple[Phrase, ...]

    @property
    def change(self) -> str:
        """The steps as a request; empty without one."""
        return " and ".join(map(str, self.steps))


class DeployedOwnership(Ownership):
    """A deploy takes partitions from a lone member too: they are unowned while the group is empty."""

    def came(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        for partition in partitions:
            self.unowned_since_ms.setdefault(partition, now_ms)

    def emptied(self, now_ms: int) -> None:
        """They stay unowned."""


def predict(
    group: DeployedGroup,
    deploy: Deploy,
    alternatives: Sequence[Alternative],
    seeds: int = SEEDS,
    ran: Callable[[int], None] = lambda runs: None,
) -> Prediction:
    """The deploy under each setting and seed; ``ran`` is called after each run, for a progress bar."""
    restarts = run_restarts(group, deploy)
    options = [Alternative(group.setting, ()), *alternatives]
    costs = tuple(_cost(group, deploy, option, restarts, range(seeds), ran) for option in options)
    recommendation = _recommendation(costs, options)
    return Prediction(group.members, group.partitions, restarts, seeds, costs, str(recommendation), recommendation)


def run_restarts(group: DeployedGroup, deploy: Deploy) -> int:
    """How many restarts are run; the costs of a large group's are scaled to all of its members."""
    most = max(MEMBER_RESTARTS // max(group.members, 1), LEAST_RESTARTS)
    return min(deploy.restarted(group.members), most)


def _cost(
    group: DeployedGroup,
    deploy: Deploy,
    option: Alternative,
    restarts: int,
    seeds: range,
    ran: Callable[[int], None],
) -> PredictedCost:
    plan, runs = deploy_plan(group, deploy, option.setting, restarts), list[Measures]()
    for seed in seeds:
        runs.append(run(option.setting, plan, seed, checks=False, meter=DeployedOwnership()))
        ran(1)
    scale = deploy.restarted(group.members) / max(restarts, 1)

    def spread(measure: str, factor: float = scale) -> CostSpread:
        values = [getattr(result, measure) * factor for result in runs]
        return CostSpread(*(round(v, 3) for v in (sum(values) / len(values), min(values), max(values))))

    return PredictedCost(
        option.setting.name,
        option.change,
        spread("rebalances"),
        spread("unowned_s"),
        spread("longest_unowned_s", 1.0),
        spread("duplicates", scale * group.records_per_s / plan.records_per_s),
        spread("moved"),
    )


def deploy_plan(group: DeployedGroup, deploy: Deploy, setting: StudySetting, restarts: int) -> Plan:
    """The plan of a run, which goes on until the last member's session would have ended. Members of the consumer protocol
    heartbeat from when they came, at any point of the interval; a rebalance of the classic protocol puts all into step."""
    whole = rolling_restart(
        group.members, group.partitions, deploy.removal, deploy.pause_ms, deploy.pause_ms + deploy.gap_ms
    )
    tail_ms = setting.session_timeout_ms + deploy.gap_ms
    spread_ms = setting.heartbeat_interval_ms if setting.protocol == "consumer" else whole.spread_ms
    return replace(whole, events=whole.events[: 2 * restarts], tail_ms=tail_ms, spread_ms=spread_ms)


# -- the alternatives ------------------------------------------------------------------------------------------------------


def named(setting: StudySetting) -> StudySetting:
    """The setting with its name: ``range, static, session 45 s``."""
    return replace(setting, name=str(setting_phrase(setting)))


def setting_phrase(setting: StudySetting) -> Phrase:
    """A setting's name."""
    kind = ("_consumer" if setting.protocol == "consumer" else "") + ("_static" if setting.static else "")
    session: dict[str, PhraseValue] = {"session_ms": setting.session_timeout_ms}
    return Phrase(
        f"setting{kind}", session if setting.protocol == "consumer" else session | {"assignor": setting.assignor}
    )


def changed(
    today: StudySetting, *, static: bool | None, protocol: str | None, session_timeout_ms: int | None
) -> Alternative:
    """Today's setting with these instead; None leaves one as it is. ``protocol``: cooperative or consumer."""
    setting, steps = today, list[Phrase]()
    if protocol == "cooperative" and setting.protocol != protocol:
        setting = replace(setting, protocol=protocol, assignor="cooperative-sticky")
        steps.append(Phrase("use_cooperative", {}))
    elif protocol == "consumer" and setting.protocol != protocol:
        setting = replace(
            setting,
            protocol=protocol,
            assignor="",
            session_timeout_ms=CONSUMER_SESSION_MS,
            heartbeat_interval_ms=CONSUMER_HEARTBEAT_MS,
        )
        steps.append(Phrase("use_consumer", {}))
    if static and not setting.static:
        setting = replace(setting, static=True)
        steps.append(Phrase("use_static", {}))
    if session_timeout_ms is not None and session_timeout_ms != setting.session_timeout_ms:
        heartbeat_ms = min(setting.heartbeat_interval_ms, session_timeout_ms // 3)
        setting = replace(setting, session_timeout_ms=session_timeout_ms, heartbeat_interval_ms=heartbeat_ms)
        is_of_group = setting.protocol == "consumer"
        name = "consumer.session.timeout.ms" if is_of_group else "session.timeout.ms"
        steps.append(
            Phrase("use_group_setting" if is_of_group else "use_setting", {"name": name, "value": session_timeout_ms})
        )
    return Alternative(named(setting), tuple(steps))


def usual_alternatives(today: StudySetting, deploy: Deploy, *, serves_consumer: bool) -> list[Alternative]:
    """The changes that are worth a look, the smallest first. A static member keeps its partitions only if its session outlasts
    the restart: it is given half as long again as the pause."""
    outlasting_ms = -(-deploy.pause_ms * 3 // 2 // 1000) * 1000
    session_ms = outlasting_ms if today.session_timeout_ms < outlasting_ms else None
    protocols = [p for p in ("cooperative", "consumer") if today.protocol not in (p, "consumer")]
    if not serves_consumer and "consumer" in protocols:
        protocols.remove("consumer")
    wanted: list[tuple[bool, str | None, int | None]] = []
    if not today.static or session_ms is not None:
        wanted.append((True, None, session_ms))
    wanted += [(False, protocol, None) for protocol in protocols]
    wanted += [(True, protocol, session_ms if protocol == "cooperative" else None) for protocol in protocols]
    return [changed(today, static=static, protocol=protocol, session_timeout_ms=ms) for static, protocol, ms in wanted]


def clock_drift(stable_ms: int | None, heartbeat_interval_ms: int) -> float:
    """By how much clocks must differ so that, after the minutes of a run's rest, heartbeats are as far out of step as those of
    a group that has been stable for so long (None: unknown, long). A rebalance puts them into step, and then each is late by up
    to `LATE_S` (Java's heartbeat thread looks every 0.1 s), which adds up as a random walk."""
    if stable_ms is None:
        return MOST_DRIFT
    apart_s = LATE_S / 2 * math.sqrt(stable_ms / max(heartbeat_interval_ms, 1))
    return min(apart_s / REST_S, MOST_DRIFT)


def protocol_of(assignor: str, *, is_consumer: bool) -> str:
    """The study's name of a group's protocol."""
    return "consumer" if is_consumer else "cooperative" if is_cooperative(assignor) else "eager"


def _recommendation(costs: Sequence[PredictedCost], options: Sequence[Alternative]) -> Phrase:
    """One sentence; of changes that are as good as the best, the smallest."""
    today, *others = costs
    of_today: dict[str, PhraseValue] = _cost_values(today)
    if not others:
        return Phrase("deploy_costs", of_today)
    best_s = min(cost.unowned_s.mean for cost in others)
    best = next(c for c in others if c.unowned_s.mean <= best_s * (1 + BETTER_BY) + NOTHING_S)
    if best.unowned_s.mean > today.unowned_s.mean * (1 - BETTER_BY) - NOTHING_S:
        return Phrase("deploy_best_as_is", of_today)
    option = options[costs.index(best)]
    values = _cost_values(best) | {
        "changes": option.steps,
        "today_s": of_today["unowned_s"],
        "today": f"{round(today.rebalances.mean, 1):g}",
    }
    if option.setting.session_timeout_ms > options[0].setting.session_timeout_ms:
        return Phrase("deploy_change_crash", values | {"session_ms": option.setting.session_timeout_ms})
    return Phrase("deploy_change", values)


def _cost_values(cost: PredictedCost) -> dict[str, PhraseValue]:
    return {"unowned_s": f"{cost.unowned_s.mean:.1f}", "rebalances": round(cost.rebalances.mean)}
