"""What the commands share: the broker's address, running on a loop, errors as one sentence, JSON or tables."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from coterie.console.terminal import write_json, write_line, write_table
from coterie.runtime.interruption import INTERRUPTED, end_at_once, on_signal
from coterie.text.hidden import visible

_SECRETS = ("password", ".jaas.config", "ssl.keystore.key", ".client.secret", ".secret.key")  # how their names end
LEADER_MS = 2_000  # for offsets: a dead leader does not return them
NO_BROKER = "no broker answers"  # how the client's error begins
COMMAND_CONFIG = "coterie.command_config"  # the file's settings in the meta of a context
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
F = TypeVar("F", bound=Callable[..., Any])


def client_options(
    help_text: str,
    default: str | None = None,
    envvar: str | None = None,
    names: Sequence[str] = ("--bootstrap-server", "-b"),
) -> Callable[[F], F]:
    """--bootstrap-server, or another of those ``names``, and --command-config: ``client``, the settings of a client by Kafka's
    names. Without an address and a default it has no bootstrap.servers."""

    def add(command: F) -> F:
        command = click.option(
            "--command-config",
            type=FILE,
            metavar="FILE",
            is_eager=True,
            expose_value=False,
            callback=_read_command_config,
            help="A properties file of client settings, for TLS and SASL, as Kafka's tools take. Options override it.",
        )(command)
        return click.option(
            *names,
            "client",
            default=default,
            envvar=envvar,
            show_default=True,
            metavar="HOST:PORT",
            callback=_client,
            help=help_text,
        )(command)

    return add


# For the commands that reach a broker.
broker_option = client_options(
    "The broker (coterie or Apache Kafka); also COTERIE_BOOTSTRAP_SERVER.", "127.0.0.1:9092", "COTERIE_BOOTSTRAP_SERVER"
)


def _read_command_config(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    """Raises BadParameter for an unknown name, a bad value, and TLS files that cannot be used."""
    if path is None:
        return
    from coterie.broker.settings import read_properties
    from coterie.client.errors import ConfigError
    from coterie.client.settings.settings import CLIENT_SETTINGS, ClientSettings, read_client_settings
    from coterie.configuration import SettingError
    from coterie.text.files import NotText, decode_properties

    try:
        given = read_properties(decode_properties(path.read_bytes()))
        read_client_settings(ClientSettings, CLIENT_SETTINGS, given).security().context()
    except (SettingError, ConfigError, NotText) as error:
        raise click.BadParameter(f"{visible(f'{path}: {error}')}.") from None
    ctx.meta[COMMAND_CONFIG] = {name.replace("_", "."): value for name, value in given.items()}


def _client(ctx: click.Context, param: click.Parameter, value: str | None) -> dict[str, str]:
    """The settings of --command-config with the address, which wins over the file's unless it is the default. Raises
    BadParameter for one that is not HOST:PORT."""
    from coterie.client.settings.types import ADDRESSES
    from coterie.configuration.value_types import UnfitValue

    try:
        if value is not None:
            ADDRESSES.read(value)
    except UnfitValue as error:
        raise click.BadParameter(f"{error}.") from None
    of_file: dict[str, str] = ctx.meta.get(COMMAND_CONFIG, {})
    is_default = ctx.get_parameter_source("client") is ParameterSource.DEFAULT
    if value is None or (is_default and "bootstrap.servers" in of_file):
        return dict(of_file)
    return of_file | {"bootstrap.servers": value}


def json_option(command: F) -> F:
    """--json of the commands whose documents `cli/parts/json_documents.py` describes."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def journal_option(command: F) -> F:
    """--journal of the commands that read what `coterie observe` or `coterie proxy` wrote."""
    return click.option(
        "--journal",
        metavar="DIR|TOPIC",
        help="Read the journal of `coterie observe` or `coterie proxy` in this folder, or this topic.",
    )(command)


def was_given(option: str) -> bool:
    """Whether the running command has the option, by its parameter's name, from the command line or the environment."""
    source = click.get_current_context().get_parameter_source(option)
    return source not in (None, ParameterSource.DEFAULT)


def settings_option(*names: str, help_text: str, form: str = "KEY=VALUE") -> Callable[[F], F]:
    """An option of settings, one each time that it is given: a ``dict[str, str]``. ``names`` are those of the option and of the
    command's parameter."""
    again = f"{help_text}; may be given again."
    return click.option(*names, multiple=True, metavar=form, callback=_settings_of, help=again)


def _settings_of(ctx: click.Context, param: click.Parameter, items: Sequence[str]) -> dict[str, str]:
    """Raises UsageError for one without a name or an equals sign, and for a secret."""
    settings: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (equals and name.strip()):
            raise click.UsageError(f"{param.opts[0]} takes {param.metavar}, not {item!r}.")
        if name.strip().lower().endswith(_SECRETS):
            raise click.UsageError(
                f"{param.opts[0]} takes no secrets, because the list of processes shows them: write {name.strip()} into a "
                "file, for --command-config or --properties."
            )
        settings[name.strip()] = value
    return settings


def history_option(
    help_text: str = "A folder of `coterie pipeline history`.", *, required: bool = False
) -> Callable[[F], F]:
    """--history of the commands that read the tables of `coterie pipeline history`."""
    return click.option(
        "--history",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        required=required,
        callback=_check_history,
        help=help_text,
    )


def _check_history(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Raises BadParameter for a folder without the tables."""
    if value is not None and not (value / "progress.json").exists():
        text = f"there is no history in {value}; make one with `coterie pipeline history --out {value}`."
        raise click.BadParameter(text)
    return value


def run(work: Coroutine[Any, Any, Any], *, patient: bool = False) -> Any:
    """Runs it; a broker's refusal becomes one sentence and exit code 1. SIGINT and SIGTERM cancel it: exit code 130.
    ``patient``: a second signal does not cut the orderly end short."""

    async def go() -> Any:
        task = asyncio.current_task()
        assert task is not None
        with on_signal(_on_loop(task.cancel), patient=patient):
            return await work

    return _in_loop(go())


def run_until_stopped(work: Callable[[asyncio.Event], Coroutine[Any, Any, Any]], *, patient: bool = False) -> Any:
    """As `run`, for work that goes on until its event is set: SIGINT and SIGTERM set it."""

    async def go() -> Any:
        stop = asyncio.Event()
        with on_signal(_on_loop(stop.set), patient=patient):
            return await work(stop)

    return _in_loop(go())


def _in_loop(work: Coroutine[Any, Any, Any]) -> Any:
    with on_signal(end_at_once()):  # while the loop is made and closed
        try:
            with asyncio.Runner() as runner:
                return sentences(runner.run, work)
        except asyncio.CancelledError:
            raise SystemExit(INTERRUPTED) from None


def _on_loop(what: Callable[[], object]) -> Callable[[], None]:
    """An action of a signal handler that a sleeping loop wakes for."""
    loop = asyncio.get_running_loop()

    def act() -> None:
        loop.call_soon_threadsafe(what)

    return act


def sentences(work: Callable[..., Any], *args: Any) -> Any:
    """Calls it; a refusal becomes one sentence and exit code 1, a setting that no client can work with one and exit code 2."""
    try:
        return work(*args)
    except Exception as error:
        # Imported here, since a broker needs nothing of the client.
        from coterie.client.errors import ConfigError, KafkaError
        from coterie.wire.errors import ErrorCode

        if isinstance(error, ConfigError):
            raise click.UsageError(visible(str(error))) from error
        if not isinstance(error, KafkaError):
            raise
        text = visible(str(error))
        if error.code == ErrorCode.NETWORK_EXCEPTION and NO_BROKER in text:
            text += "; start a broker there, or name another with --bootstrap-server"
        elif error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            text = text.removesuffix(".") + "; `coterie groups list` prints the groups"
        raise click.ClickException(text) from error


def milliseconds(text: str, option: str, others: str = "") -> int:
    """An ISO time as ms since 1970; without a zone it is local. ``others``: what else the option takes."""
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise click.UsageError(f"{option} takes {others}an ISO time such as 2026-11-21T09:30, not {text!r}.") from None


def done(text: str, as_json: bool, **what: Any) -> None:
    """Writes a result: a sentence, or its fields as JSON."""
    if as_json:
        write_json(what)
    else:
        write_line(text)


@contextlib.contextmanager
def progress_bar(length: int, label: str) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal's standard error, and nothing elsewhere; the yielded function advances it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update


def show(
    value: Any,
    as_json: bool,
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    none: str = "",
    *,
    brief: Callable[[str], str] = str,
) -> None:
    """The value as JSON, or the rows as a table; ``none`` is the sentence for no rows, ``brief`` as in `write_table`."""
    if as_json:
        write_json(value, indent=2)
    elif rows:
        write_table(headers, rows, brief)
    else:
        write_line(none)
