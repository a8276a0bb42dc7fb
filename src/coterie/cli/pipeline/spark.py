"""What the verbs that start Spark share: where it runs, and its errors as one sentence."""

from __future__ import annotations

import contextlib
import logging
import re
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from coterie.cli.parts.invocation import run, was_given
from coterie.cli.parts.option_values import IntegerRange
from coterie.console.terminal import write_line
from coterie.runtime.extras import require
from coterie.text.quantity import quantity

INTERRUPTED = 130
_MASTER = re.compile(r"local(-cluster)?(\[[\d*, ]+\])?|yarn|(spark|k8s|sc)://.+")


def check_master(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The Spark master as given. Raises BadParameter for one on which Spark's JVM would end with a stack trace."""
    if value is not None and not _MASTER.fullmatch(value):
        raise click.BadParameter(
            f"must be local[*], yarn, spark://HOST:PORT, k8s://... or sc://HOST:PORT, not {value!r}."
        )
    return value


LOCAL = "local[*]"
LOCAL_BYTES = 32_000_000  # an input up to which this process is quicker than a JVM that has to start


def spark_options(command: Any) -> Any:
    """--out and --master of the commands that start Spark."""
    command = click.option(
        "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder to write to."
    )(command)
    return master_option(command)


def master_option(command: Any) -> Any:
    """--master."""
    return click.option(
        "--master",
        default=LOCAL,
        show_default=True,
        callback=check_master,
        help="Any Spark master, such as spark://HOST:7077 or yarn; sc://HOST:15002 for Spark Connect.",
    )(command)


def spark_above_option(command: Any) -> Any:
    """--spark-above of the commands that need no Spark for a small input."""
    return click.option(
        "--spark-above",
        type=IntegerRange(0),
        metavar="BYTES",
        default=LOCAL_BYTES,
        show_default=True,
        help="A larger input than this is read on Spark. With --master any is.",
    )(command)


def is_for_spark(size: int, spark_above: int) -> bool:
    """Whether an input of so many bytes is read on Spark; says why."""
    is_master_given = was_given("master")
    reason = "--master is given" if is_master_given else f"--spark-above is {spark_above:,}"
    where = "on Spark" if size > spark_above or is_master_given else "without Spark"
    write_line(f"{where}: the input has {quantity(size, 'byte')}, and {reason}", err=True)
    return size > spark_above or is_master_given


def require_spark() -> None:
    """Raises ExtraMissing where PySpark is not installed."""
    require("spark", "a job on Spark")


def reach(client: Mapping[str, str]) -> None:
    """Fails at once where no broker responds or accepts the client: a job would wait for a broker, since brokers restart."""
    from coterie.client import Admin

    async def call() -> None:
        async with Admin(client) as admin:
            await admin.describe_cluster()

    run(call())


def note(text: str) -> None:
    """A line on a terminal. Not a spinner: the JVM and Spark's workers write to the same terminal at any time."""
    if sys.stderr is not None and sys.stderr.isatty():
        write_line(text, err=True)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    logging.disable(logging.CRITICAL)  # py4j logs a traceback of the call that is cut off
    raise KeyboardInterrupt


def _silence(spark: Any) -> None:
    """Before a stop that cuts tasks off: the JVM writes a trace for each, of files and blocks that are gone."""
    warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
    with contextlib.suppress(Exception):  # Spark Connect has no context, and raises an error of its own
        spark.sparkContext.setLogLevel("OFF")
        spark.sparkContext.cancelAllJobs()


def as_sentence(work: Callable[[], Any]) -> Any:
    """Calls it; what it raises for the user becomes one sentence and exit code 1."""
    from coterie.pipeline.sentences import sentence_of

    try:
        return work()
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        raise click.ClickException(sentence) from error


def run_on_spark(
    master: str,
    work: Callable[[Any], Any],
    *,
    short: bool = True,
    on_signal: Callable[[int, FrameType | None], object] = _interrupt,
) -> Any:
    """Runs a job; what a Python reader raised deep in Spark comes out as its own sentence. ``short``: a JVM that starts fast
    rather than runs fast. ``on_signal``: what SIGINT and SIGTERM do while it runs; by default the job ends with exit code
    130."""
    require_spark()
    from coterie.pipeline.session import JavaMissing, make_session

    try:
        note("starting Spark")
        spark = make_session(master, short=short)
    except JavaMissing as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    # Only now: a session of Spark brings a handler of its own.
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        note("Spark is at work")
        return as_sentence(lambda: work(spark))
    except KeyboardInterrupt:
        _silence(spark)
        raise SystemExit(INTERRUPTED) from None
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        spark.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
