"""`coterie groups predict`: what a deploy would cost the group, and under which settings less."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.cli.parts.invocation import broker_option, json_option, progress_bar, run
from coterie.cli.parts.option_values import Duration, IntegerRange, complete_groups
from coterie.console.terminal import write_json, write_line, write_table
from coterie.text.quantity import quantity, span

if TYPE_CHECKING:
    from coterie.cli.parts.json_groups import PredictedDeploy
    from coterie.laboratory.prediction import CostSpread, Deploy, Prediction
    from coterie.observer.deploys import PredictableGroup

HEADERS = ("SETTINGS", "REBALANCES", "UNOWNED", "LONGEST", "MOVED", "DUPLICATES")


@click.command(
    epilog="""\b
Examples:
  coterie groups predict crew --rolling-restart
  coterie groups predict crew --rolling-restart --pause 20s --gap 1m
  coterie groups predict crew --rolling-restart --static --session-timeout 30s
  coterie groups predict crew --rolling-restart --protocol consumer --json
  coterie groups predict crew --restart-one --kill
"""
)
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "--rolling-restart/--restart-one",
    "restarts_all",
    default=True,
    help="The deploy: all members are stopped and started one after the other (the default), or one of them alone.",
)
@click.option(
    "--pause",
    "pause_ms",
    type=Duration(),
    default="8s",
    show_default=True,
    help="From a member's stop until it joins again.",
)
@click.option(
    "--gap",
    "gap_ms",
    type=Duration(),
    default="30s",
    show_default=True,
    help="From a member's return to the stop of the next one.",
)
@click.option(
    "--poll",
    "poll_ms",
    type=Duration(),
    help="What the members' code takes for the records of a poll (default: as their clients measured, KIP-714).",
)
@click.option(
    "--clients",
    type=click.Choice(["java", "other"]),
    help="Java's take part in a rebalance in their polls, others beside them (default: as the broker knows, or java).",
)
@click.option("--kill", is_flag=True, help="The processes end without closing their consumers.")
@click.option("--static", is_flag=True, help="Only this alternative: every member has a group.instance.id.")
@click.option(
    "--protocol",
    type=click.Choice(["cooperative", "consumer"]),
    help="Only this alternative: cooperative-sticky, or the consumer protocol (KIP-848).",
)
@click.option(
    "--session-timeout", "session_timeout_ms", type=Duration(), help="Only this alternative: another session timeout."
)
@click.option("--seeds", type=IntegerRange(1, 1000), default=5, show_default=True, help="Runs of each setting.")
@broker_option
@json_option
def predict(
    group: str,
    restarts_all: bool,
    pause_ms: int,
    gap_ms: int,
    poll_ms: int | None,
    clients: str | None,
    kill: bool,
    static: bool,
    protocol: str | None,
    session_timeout_ms: int | None,
    seeds: int,
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Replay a deploy of the group under other settings.

    In virtual time, so that nothing changes there; works with any Kafka. UNOWNED is for how long a partition has no owner
    during the whole deploy, in the mean; LONGEST is the longest time in one piece. Each figure is the mean over the runs, with
    the lowest and the highest. With --static, --protocol or --session-timeout only the settings of now and these together are
    compared.
    """
    from coterie.laboratory.prediction import Deploy, changed, usual_alternatives
    from coterie.laboratory.prediction import predict as predicted

    joins_in_polls = None if clients is None else clients == "java"
    known = run(predictable_group(group, client, poll_ms, joins_in_polls))
    deploy = Deploy(pause_ms, gap_ms, "kill" if kill else "leave", not restarts_all)
    today = known.deployed.setting
    if static or protocol is not None or session_timeout_ms is not None:
        chosen = changed(today, static=static, protocol=protocol, session_timeout_ms=session_timeout_ms)
        alternatives = [chosen] if chosen.change else []
    else:
        alternatives = usual_alternatives(today, deploy, serves_consumer=known.serves_consumer)
    with progress_bar((len(alternatives) + 1) * seeds, "predicting") as advance:
        prediction = predicted(known.deployed, deploy, alternatives, seeds, advance)
    if as_json:
        document: PredictedDeploy = {
            "group": group,
            **asdict(deploy),  # type: ignore[typeddict-item]
            **asdict(prediction),
            "assumed": list(map(str, known.assumed)),
        }
        write_json(document, indent=2)
    else:
        _write(group, known, deploy, prediction)


async def predictable_group(
    group: str, client: dict[str, str], poll_ms: int | None = None, joins_in_polls: bool | None = None
) -> PredictableGroup:
    """Raises KafkaError; ClickException for a group whose deploys cannot be predicted."""
    from coterie.observer.deploys import UnpredictableGroup, predictable
    from coterie.observer.group_facts import known_group

    known = await known_group(client, group)
    try:
        return predictable(known, poll_ms, joins_in_polls)
    except UnpredictableGroup as error:
        raise click.ClickException(str(error)) from None


def _write(group: str, known: PredictableGroup, deploy: Deploy, prediction: Prediction) -> None:
    members, partitions = quantity(prediction.members, "member"), quantity(prediction.partitions, "partition")
    verb = "ends" if deploy.removal == "kill" else "is closed"
    if deploy.only_one:
        what = f"a restart of one of {members} with {partitions}; it {verb}, and is away for {span(deploy.pause_ms)}"
    else:
        what = f"a rolling restart of {members} with {partitions}; each {verb}, is away for {span(deploy.pause_ms)}, "
        what += f"and the next one follows after {span(deploy.gap_ms)}"
    write_line(f"{group}: {what}")
    rows = [
        (
            f"{cost.setting} (today)" if not cost.change else cost.setting,
            _spread(cost.rebalances, 0),
            _spread(cost.unowned_s, 1, " s"),
            _spread(cost.longest_unowned_s, 1, " s"),
            _spread(cost.moved, 0),
            _spread(cost.duplicates, 0),
        )
        for cost in prediction.costs
    ]
    write_table(HEADERS, rows)
    if prediction.restarts < deploy.restarted(prediction.members):
        write_line(f"{prediction.restarts} of the {members} were restarted, and the costs scaled to all")
    for sentence in known.assumed:
        write_line(f"assumed: {sentence}")
    write_line(prediction.recommendation)


def _spread(spread: CostSpread, decimals: int, unit: str = "") -> str:
    """``6``, or ``3.8 s (3.1 to 4.4)``."""
    mean, lowest, highest = (f"{value:,.{decimals}f}" for value in (spread.mean, spread.lowest, spread.highest))
    return f"{mean}{unit}" if lowest == highest else f"{mean}{unit} ({lowest} to {highest})"
