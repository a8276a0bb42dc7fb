"""What the parts `observe`, `proxy`, `console` and `predict` report: causes of stories on Kafka, clients behind a proxy,
pages of the console over clusters of coterie and of Apache Kafka, and rolling restarts beside their predictions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from coterie.console.terminal import write_line
from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check
from coterie_conformance.tools.our_commands import is_older

if TYPE_CHECKING:
    from coterie_conformance.observer.stories import CauseStory
    from coterie_conformance.observer.story_cluster import StoryVerdict

OBSERVED_VERSIONS = ("2.6.3", "3.9.1", "4.3.0", "4.4.0")
CONSUMER_SINCE, SHARES_AND_STREAMS_SINCE = "4.0", "4.4"
LEAST_BY_OBSERVER = 0.9  # 27 of 30; of the consumer protocol's stories too
PROXIED_VERSIONS = ("4.3.0", "4.4.0")
CONSOLE_VERSIONS = ("3.9.1", "4.3.0", "4.4.0")
SEVERAL = 3
NEAR_OF_TEN = 8  # set-ups whose prediction must be near


def observe_part(options: PartOptions) -> Figures:
    """Failed are stories that the observer and the proxy together do not name, a wrong cause that is marked observed, and
    more than one in ten that the observer alone does not name."""
    import asyncio

    from coterie_conformance.observer.stories import OF_CONSUMERS, OF_SHARES_AND_STREAMS, THIRTY
    from coterie_conformance.observer.story_cluster import StoryCluster

    stories: tuple[CauseStory, ...] = THIRTY if is_older(options.version, CONSUMER_SINCE) else (*THIRTY, *OF_CONSUMERS)
    stories += () if is_older(options.version, SHARES_AND_STREAMS_SINCE) else OF_SHARES_AND_STREAMS

    async def run() -> list[StoryVerdict]:
        async with StoryCluster(options.version, options.folder / "observe").running(stories) as cluster:
            return await cluster.verdicts(stories, _report)

    verdicts = asyncio.run(run())
    rows = [
        {"story": v.name, "observer": v.by_observer, "proxy": v.by_proxy, "both": v.by_both, "wrong": v.wrong}
        for v in verdicts
    ]
    unnamed = sum(not v.by_both for v in verdicts) + sum(v.is_observed_wrongly for v in verdicts)
    beyond = max(0, int(LEAST_BY_OBSERVER * len(verdicts)) - sum(v.by_observer for v in verdicts))
    return {"observe": rows, "failed": unnamed + beyond}


def _report(verdict: StoryVerdict) -> None:
    by = [who for who, is_named in (("the observer", verdict.by_observer), ("the proxy", verdict.by_proxy)) if is_named]
    wrong = [verdict.failure] if verdict.failure else []
    wrong += [] if by else [f"the cause was not named; concluded: {'; '.join(verdict.seen[-3:]) or 'nothing'}"]
    wrong += [f"not true: {', '.join(verdict.wrong)}"] if verdict.wrong else []
    write_check(f"{verdict.name}, named by {' and '.join(by) or 'nobody'}", "; ".join(wrong))


def observe_sentences(figures: Figures) -> list[str]:
    """The line about the part's figures."""
    rows = figures["observe"]
    named = {by: sum(row[by] for row in rows) for by in ("observer", "proxy", "both")}
    observed = sum("(observed" in cause for row in rows for cause in row["wrong"])
    by = f"{named['observer']} named by the observer, {named['proxy']} by the proxy, {named['both']} by both together"
    return [f"  observe: of {len(rows)} stories {by}; {observed} wrong causes marked observed"]


# -- proxy --------------------------------------------------------------------------------------------------------------------


def proxy_part(options: PartOptions) -> Figures:
    """Failed are checks that pass without the proxy alone."""
    from coterie_conformance.proxy.run import ProxiedCheck, run_proxied

    def report(check: ProxiedCheck) -> None:
        write_check(f"{check.broker}, {check.name}", check.proxied if check.is_worse else "")

    checks = run_proxied(options.version, options.folder / "proxied", report)
    passed = Counter(check.broker for check in checks if not check.direct)
    through = Counter(check.broker for check in checks if not check.direct and not check.proxied)
    return {
        "proxy": {broker: {"without": count, "with": through[broker]} for broker, count in passed.items()},
        "failed": sum(check.is_worse for check in checks),
    }


def proxy_sentences(figures: Figures) -> list[str]:
    """A line for each broker of the part's figures."""
    return [
        f"  proxy, {broker}: of {counts['without']} checks that pass without it {counts['with']} pass with it"
        for broker, counts in figures["proxy"].items()
    ]


# -- console ------------------------------------------------------------------------------------------------------------------


def console_part(options: PartOptions) -> Figures:
    """One broker and three of Apache Kafka's; beside the newest version of coterie's too."""
    import asyncio

    from coterie_conformance.console.clusters import kafka, ours
    from coterie_conformance.console.judge import ConsoleCheck, judge_console

    folder, rows = options.folder / "console", list[dict[str, Any]]()
    clusters = [
        (f"Apache Kafka {options.version}", n, kafka(options.version, folder / f"kafka-{n}", n)) for n in (1, SEVERAL)
    ]
    if options.version == CONSOLE_VERSIONS[-1]:
        clusters += [("coterie", n, ours(folder / f"coterie-{n}", n)) for n in (1, SEVERAL)]
    for who, brokers, running in clusters:
        name = f"{who}, {quantity(brokers, 'broker')}"

        def report(check: ConsoleCheck, name: str = name) -> None:
            seen = "" if check.seconds is None or check.wrong else f", after {check.seconds:.1f} s"
            write_check(f"console, {name}: {check.name}{seen}", check.wrong)
            rows.append({"cluster": name, "check": check.name, "seconds": check.seconds, "wrong": check.wrong})

        folder.mkdir(parents=True, exist_ok=True)
        with running as cluster:
            asyncio.run(judge_console(cluster, folder, report))
    return {"console": rows, "failed": sum(bool(row["wrong"]) for row in rows)}


def console_sentences(figures: Figures) -> list[str]:
    """The lines about the part's figures."""
    rows = figures["console"]
    right = sum(not row["wrong"] for row in rows)
    seen = [row["seconds"] for row in rows if row["seconds"] is not None and "dies" not in row["check"]]
    longest = f"a change is on the page after {max(seen, default=0):.1f} s at most"
    return [f"  console: {right} of {quantity(len(rows), 'check')} right; {longest}"]


def predict_part(options: PartOptions) -> Figures:
    """Every set-up, predicted and measured."""
    from coterie_conformance.predict.deploys import deploy_on_kafka

    rows = deploy_on_kafka(options.version, options.folder / "predict", lambda text: write_line(text, err=True))
    for row in rows:
        predicted, measured = row.predicted.unowned_s, f"{row.mean_s:.1f} s unowned per partition"
        wrong = f"{predicted.mean:.1f} s ({predicted.lowest:.1f} to {predicted.highest:.1f}) were predicted"
        write_check(f"predict, {row.set_up.name}: {measured}", "" if row.is_near else wrong)
    table = [
        {
            "set_up": row.set_up.name,
            "predicted_s": row.predicted.unowned_s.mean,
            "predicted_lowest_s": row.predicted.unowned_s.lowest,
            "predicted_highest_s": row.predicted.unowned_s.highest,
            "measured_s": row.unowned_s,
            "predicted_rebalances": row.predicted.rebalances.mean,
            "measured_rebalances": row.rebalances,
            "predicted_duplicates": row.predicted.duplicates.mean,
            "predicted_lowest_duplicates": row.predicted.duplicates.lowest,
            "predicted_highest_duplicates": row.predicted.duplicates.highest,
            "measured_duplicates": row.duplicates,
            "near": row.is_near,
        }
        for row in rows
    ]
    far = sum(not row.is_near for row in rows)
    return {"predict": table, "failed": far if (len(rows) - far) * 10 < NEAR_OF_TEN * len(rows) else 0}


def predict_sentences(figures: Figures) -> list[str]:
    """The lines about the part's figures."""
    rows = figures["predict"]
    near = sum(row["near"] for row in rows)
    return [
        f"  predict: the unowned time of {near} of {quantity(len(rows), 'deploy')} within a fifth of the prediction"
    ]
