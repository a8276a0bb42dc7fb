"""The one door to standard output and standard error: names from clients are shown, never obeyed.

Names of groups, clients and topics, metadata and errors' messages come from any client of the broker. A terminal obeys
control characters in them (a title set, a screen cleared, a line that reads backwards), so each is shown as its escape:
`\\x1b`, `\\u202e`. A text is one line here: a line break in a name starts no line of its own.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from coterie.text.hidden import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text


class OutputFailed(Exception):
    """Standard output or standard error cannot be written: its reader has gone, or its disk is full. `cause` is the
    OSError."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"cannot write the output: {cause.strerror or cause}")
        self.cause = cause


def is_terminal() -> bool:
    """Whether standard output is a person's terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def write_line(text: str = "", *, err: bool = False, color: str | None = None, bold: bool = False) -> None:
    """One line, which a terminal that is narrower shows folded between words. Raises OutputFailed."""
    shown = folded(visible(text), _stream_width(err))
    _write(click.style(shown, fg=color, bold=bold) if color or bold else shown, err=err)


def write_lines(lines: Iterable[str], *, err: bool = False, color: str | None = None) -> None:
    """Each as `write_line` does. Raises OutputFailed."""
    for line in lines:
        write_line(line, err=err, color=color)


def write_finding(word: str, color: str, text: str) -> None:
    """A line that begins with a coloured word."""
    below = folded(f"{'':{len(word)}}  {visible(text)}", _stream_width(err=False))
    _write(click.style(word, fg=color) + below[len(word) :])


def write_json(value: Any, indent: int | None = None) -> None:
    """The value as JSON, in printable ASCII: all else is escaped."""
    _write(json.dumps(value, indent=indent, default=str))


def write_value(value: bytes | None) -> None:
    """A record's value and a line break: on a terminal as text without control characters, else the bytes themselves."""
    if value is None or not is_terminal():
        _write(value or b"")
    else:
        _write(visible(value.decode(errors="replace"), breaks=True))


def write_bytes(data: bytes) -> None:
    """Bytes as they are: away from a terminal. Raises OutputFailed."""
    _write(data, nl=False)


def write_text(text: str, *, err: bool = False) -> None:
    """Our own text of many lines, which ends its last one itself."""
    _write(visible(text, breaks=True), err=err, nl=False)


def write_table(headers: Sequence[str], rows: Iterable[Sequence[Any]], brief: Callable[[str], str] = str) -> None:
    """A table as `console.tables.table_lines` has it; None is shown as `-`. Raises OutputFailed."""
    from coterie.console.tables import table_lines

    cells = [["-" if cell is None else visible(str(cell)) for cell in row] for row in rows]
    lines = table_lines(headers, cells, terminal_width(), brief)
    _write("\n".join([*(click.style(line, bold=True) for line in lines.headers), *lines.body]))


def folded(text: str, width: int | None) -> str:
    """The line with breaks between words, so that none is wider unless one word is; a further line begins below the first
    word. None: no terminal, nothing is folded."""
    if width is None or len(text) * 2 <= width:
        return text
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return text
    words = text.lstrip(" ")
    indent = " " * (len(text) - len(words))
    if len(indent) > width // 2:
        return text
    lines = [""]
    for word in words.split(" "):
        line = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and len(indent) + cell_len(line) > width:
            lines.append(word)
        else:
            lines[-1] = line
    return "\n".join(indent + line for line in lines)


def _stream_width(err: bool) -> int | None:
    """The columns of standard output or standard error; None where it is no terminal."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def terminal_width() -> int | None:
    """The columns of standard output; None where it is no terminal."""
    return terminal_size()[0] if is_terminal() else None


def terminal_size() -> tuple[int, int]:
    """The columns and lines of standard output."""
    import shutil  # milliseconds of a broker's start

    size = shutil.get_terminal_size()
    return size.columns, size.lines


def text_of(text: str, style: str = "") -> Text:
    """A piece of a drawing: no control characters, and no brackets that rich takes for markup."""
    from rich.text import Text

    return Text(visible(text), style)


def write_drawing(drawing: RenderableType, piped_width: int) -> None:
    """Tables and texts made of `text_of`. ``piped_width``: columns where no terminal has its own."""
    console = drawing_console(None if is_terminal() else piped_width)
    with console.capture() as captured:  # rich itself would end the process where the reader has gone
        console.print(drawing)
    _write("\n".join(line.rstrip() for line in captured.get().split("\n")), nl=False)  # a table pads its last column


def drawing_console(width: int | None = None, *, err: bool = False) -> Console:
    """rich's console on standard output or standard error."""
    from rich.console import Console

    return Console(width=width, highlight=False, stderr=err)


def _write(text: str | bytes, *, err: bool = False, nl: bool = True) -> None:
    try:
        click.echo(text, err=err, nl=nl)
    except OSError as error:
        raise OutputFailed(error) from error


class VisibleFormatter(logging.Formatter):
    """Log lines without control characters; a traceback keeps its lines, a message is one."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return visible(super().formatException(ei), breaks=True)

    def formatStack(self, stack_info: str) -> str:
        return visible(super().formatStack(stack_info), breaks=True)
