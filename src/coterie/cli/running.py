"""What every verb that talks to a broker shares: the address, JSON or tables, errors as one sentence."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def broker_option(command: F) -> F:
    return click.option(
        "--bootstrap-server",
        "-b",
        default="127.0.0.1:9092",
        envvar="COTERIE_BOOTSTRAP_SERVER",
        show_default=True,
        metavar="HOST:PORT",
        help="The broker (coterie or Apache Kafka); also COTERIE_BOOTSTRAP_SERVER.",
    )(command)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs it; a broker's refusal becomes one sentence and exit code 1."""
    return sentences(asyncio.run, work)


def sentences(work: Callable[..., Any], *args: Any) -> Any:
    """Calls it; a refusal becomes one sentence and exit code 1."""
    from coterie.client.errors import ConfigError, KafkaError

    try:
        return work(*args)
    except (KafkaError, ConfigError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def milliseconds(text: str, option: str, others: str = "") -> int:
    """An ISO time as ms since 1970; without a zone it is local. ``others``: what else the option takes."""
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise click.UsageError(f"{option} takes {others}an ISO time such as 2026-11-21T09:30, not {text!r}.") from None


def done(text: str, as_json: bool, **what: Any) -> None:
    """Says what was done: a sentence, or its parts as JSON."""
    click.echo(json.dumps(what) if as_json else text)


@contextlib.contextmanager
def busy(text: str) -> Iterator[None]:
    """A spinner on a terminal's standard error while something takes more than a moment."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def show(value: Any, as_json: bool, headers: Sequence[str], rows: Sequence[Sequence[Any]], none: str = "") -> None:
    """The value as JSON, or the rows as a table; ``none`` is said when there are no rows."""
    if as_json:
        click.echo(json.dumps(value, indent=2))
        return
    if not rows:
        click.echo(none)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold", no_wrap=not sys.stdout.isatty())
    for row in rows:
        table.add_row(*("-" if cell is None else str(cell) for cell in row))
    width = None if sys.stdout.isatty() else 500
    Console(width=width, highlight=False).print(table)
