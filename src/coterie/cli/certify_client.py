"""`coterie certify-client`: the user's consumer or producer, in any language, through the stories of a nasty day."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.cli.parts.invocation import json_option, progress_bar
from coterie.cli.parts.option_values import IntegerRange, NumberRange
from coterie.console.terminal import write_json, write_line, write_table
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.certify.client.stage import ClientOutcome
    from coterie.certify.client.story import ClientStory
    from coterie.cli.parts.json_figures import ClientStoryRow

ROLES = ("consumer", "producer")
DELIVERIES = {"consumer": ("at-least-once", "at-most-once"), "producer": ("at-least-once", "exactly-once")}


@click.command(
    name="certify-client",
    epilog="""\b
Examples:
  coterie certify-client -- ./my-consumer
  coterie certify-client -- java -jar app.jar {bootstrap} {group} {topic}
  coterie certify-client --story fenced -- python consumer.py
  coterie certify-client --role producer -- node producer.js

The program takes part by its environment, COTERIE_BOOTSTRAP_SERVERS, COTERIE_TOPIC and COTERIE_GROUP, or by {bootstrap},
{topic} and {group} in its command. A consumer reads from the earliest record and prints each value once it has processed
it; a producer sends each line of its standard input and prints it once it is acknowledged. Both flush what they print.
Exits 0 when no story is wrong, 1 when one is.
""",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--role", type=click.Choice(ROLES), default="consumer", show_default=True, help="What the program is.")
@click.option(
    "--delivery",
    type=click.Choice(sorted({one for some in DELIVERIES.values() for one in some})),
    default="at-least-once",
    show_default=True,
    help="What its settings promise: of a consumer at-most-once too, of a producer exactly-once (idempotence).",
)
@click.option("--story", "names", multiple=True, metavar="NAME", help="Only this story; may be given again.")
@click.option("--list", "only_list", is_flag=True, help="List the stories with their steps.")
@click.option("--jobs", type=IntegerRange(1, 64), default=4, show_default=True, help="How many stories run at a time.")
@click.option(
    "--patience",
    type=NumberRange(1, 3600),
    default=30.0,
    show_default=True,
    help="After so many seconds without a record, a commit or an acknowledgement a client is stuck; before the first "
    "request of a process, after four times as many.",
)
@json_option
def certify_client(
    command: tuple[str, ...],
    role: str,
    delivery: str,
    names: tuple[str, ...],
    only_list: bool,
    jobs: int,
    patience: float,
    as_json: bool,
) -> None:
    """Test a consumer or producer in any language against a nasty broker."""
    stories = _chosen(role, names)
    if only_list:
        _list(stories, as_json)
        return
    if not command:
        raise click.UsageError("certify-client needs the program's command, behind --.")
    if delivery not in DELIVERIES[role]:
        raise click.UsageError(f"--delivery of a {role} is {' or '.join(DELIVERIES[role])}, not {delivery}.")
    outcomes = _outcomes_of(stories, command, delivery, jobs, patience)
    if as_json:
        write_json([_row(outcome) for outcome in outcomes], indent=2)
    else:
        _show(outcomes)
    raise SystemExit(1 if any(outcome.findings for outcome in outcomes) else 0)


def _chosen(role: str, names: Sequence[str]) -> list[ClientStory]:
    """Raises UsageError."""
    from coterie.certify.client.roles import STORIES

    known = {story.name: story for story in STORIES[role]}
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise click.UsageError(f"There is no story {unknown!r} of a {role}; --list has all of them.")
    return [story for name, story in known.items() if name in names or not names]


def _list(stories: Sequence[ClientStory], as_json: bool) -> None:
    if as_json:
        from coterie.certify.client.stage import ClientOutcome

        write_json([_row(ClientOutcome(story, "not run")) for story in stories], indent=2)
        return
    write_table(("STORY", "WHAT HAPPENS", "STEPS"), [(s.name, s.text, "; ".join(s.steps)) for s in stories])


@contextlib.contextmanager
def _without_log_lines() -> Iterator[None]:
    """The brokers report what the stories do to them."""
    logger = logging.getLogger("coterie")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _outcomes_of(
    stories: Sequence[ClientStory], command: Sequence[str], delivery: str, jobs: int, patience_s: float
) -> list[ClientOutcome]:
    """Raises ClickException for a command that cannot be started."""
    from coterie.certify.client.history import DeliveryPromise
    from coterie.certify.client.roles import run_stories
    from coterie.certify.client.stage import ClientUnderTest

    with (
        _without_log_lines(),
        tempfile.TemporaryDirectory(prefix="coterie-certify-") as folder,
        progress_bar(len(stories), "stories") as advance,
    ):
        try:
            client = ClientUnderTest(command, Path(folder), patience_s)
            return run_stories(stories, client, DeliveryPromise(delivery), jobs, lambda _: advance(1))
        except OSError as error:
            raise click.ClickException(f"{command[0]} cannot be started: {error.strerror or error}") from error


def _row(outcome: ClientOutcome) -> ClientStoryRow:
    findings = [asdict(finding) | {"at_s": round(finding.at_s, 3)} for finding in outcome.findings]
    story = outcome.story
    return {
        "story": story.name,
        "text": story.text,
        "steps": list(story.steps),
        "outcome": outcome.outcome,
        "detail": outcome.detail,
        "seconds": round(outcome.seconds, 1),
        "findings": findings,  # type: ignore[typeddict-item]
    }


def _show(outcomes: Sequence[ClientOutcome]) -> None:
    for outcome in outcomes:
        is_wrong = bool(outcome.findings)
        detail = f": {outcome.detail}" if outcome.detail else ""
        write_line(f"{outcome.outcome:7}  {outcome.story.name}{detail}", color="red" if is_wrong else None)
        for finding in outcome.findings:
            write_line(f"         {finding.rule} ({quantity(finding.cases, 'case')}): {finding.text}")
            where = f"{finding.at_s:.1f} s" + (f", after the step {finding.after!r}" if finding.after else "")
            write_line(f"         at {where}" + (f"; the journal: {finding.journal}" if finding.journal else ""))
    counts = {name: sum(o.outcome == name for o in outcomes) for name in ("right", "wrong", "not met")}
    write_line(
        f"{quantity(len(outcomes), 'story', 'stories')}: " + ", ".join(f"{n} {name}" for name, n in counts.items())
    )
