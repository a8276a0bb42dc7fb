"""A command that reads many things shows what it could read, writes a line for each thing that it could not, and ends with
1."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from coterie.console.terminal import write_line

MOST_LINES = 20
LEADER_MS = 2_000  # for offsets: a dead leader does not return them


def end_with(failures: Iterable[Exception | str]) -> None:
    """Writes the sentences to standard error, and exits with 1 where there are any."""
    sentences = list(dict.fromkeys(map(str, failures)))
    for sentence in sentences[:MOST_LINES]:
        write_line(f"Error: {sentence}", err=True)
    if len(sentences) > MOST_LINES:
        write_line(f"Error: and {len(sentences) - MOST_LINES} more", err=True)
    if sentences:
        sys.exit(1)
