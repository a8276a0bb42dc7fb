"""How every command ends: one exit code, one sentence where something failed, and a traceback only for a bug.

0     done, or stopped where it runs until it is stopped
1     refused or failed, with a sentence; where a command compares or checks: not everything held
2     wrong arguments, settings and files that options name included, before anything is done
3     something that the command needs cannot run here
130   stopped by SIGINT or SIGTERM before it was done
141   the reader of the output has gone, as after `| head -1` (128 + SIGPIPE)
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

from coterie.console.terminal import OutputFailed, write_line, write_lines, write_text
from coterie.runtime.interruption import INTERRUPTED, ending, interrupted
from coterie.text.hidden import visible

READER_GONE = 141
_OF_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
MOST_LINES = 20


def exit_code(work: Callable[[], Any]) -> int:
    """Runs a command's work, writes the sentence of its failure, and returns its exit code. Raises what is a bug."""
    try:
        code = _code(work)
        ending(code)
        _flush()
    except OutputFailed as failed:
        code = _output_failed(failed)
        ending(code)
    return code


def _code(work: Callable[[], Any]) -> int:
    try:
        returned = work()
    except SystemExit as error:
        returned = error.code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except OutputFailed:
        raise
    except BaseException as error:
        if interrupted():  # whatever the interrupt became on its way
            return INTERRUPTED
        return _failed(error)
    return returned if isinstance(returned, int) else 0


def _failed(error: BaseException) -> int:
    """The exit code of a failure, its sentence written; raises it again where it is a bug."""
    if isinstance(error, OSError):
        named = "" if error.filename is None else f"{error.filename}: "
        error = click.ClickException(f"{named}{error.strerror or error}")
    if not isinstance(error, click.ClickException):
        raise error
    _show(error)
    return error.exit_code


def _show(error: click.ClickException) -> None:
    """As click shows it, through the one door."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    usage = "" if context is None else context.get_usage()
    if usage and message.startswith(usage):  # no arguments at all: the whole help
        write_text(f"{message}\n", err=True)
        return
    if context is not None:
        write_text(f"{usage}\nTry '{context.command_path} --help' for help.\n\n", err=True)
    # Only click's own list of choices has lines.
    write_lines(f"Error: {visible(message, breaks=isinstance(error, click.MissingParameter))}".split("\n"), err=True)


@contextlib.contextmanager
def output_errors() -> Iterator[None]:
    """For what click itself writes, help and errors: raises OutputFailed."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_OUTPUT:
            raise
        raise OutputFailed(error) from error


def _flush() -> None:
    with output_errors():
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()


def _output_failed(failed: OutputFailed) -> int:
    """Writes nothing to a reader that has gone, and drops what is in the buffers: Python would try to write it at exit."""
    gone = failed.cause.errno == errno.EPIPE
    _discard(sys.stdout)
    try:
        if not gone:
            click.echo(f"Error: {failed}", err=True)
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)
    return READER_GONE if gone else 1


def _discard(stream: Any) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        stream.flush()


def end_with(failures: Iterable[Exception | str]) -> None:
    """Writes the sentences to standard error, and exits with 1 where there are any."""
    sentences = list(dict.fromkeys(map(str, failures)))
    for sentence in sentences[:MOST_LINES]:
        write_line(f"Error: {sentence}", err=True)
    if len(sentences) > MOST_LINES:
        write_line(f"Error: and {len(sentences) - MOST_LINES} more", err=True)
    if sentences:
        sys.exit(1)
