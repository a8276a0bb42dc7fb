"""The program's entry. It takes SIGINT and SIGTERM before it imports the commands, which takes a tenth of a second."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False  # `typing` is imported, with the rest, once `run` has disabled the collection of cycles
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def main() -> NoReturn:
    """`coterie`, and `python -m coterie`."""

    def command() -> Callable[..., Any]:
        from coterie.cli import main

        return main

    run("coterie", command)


def run(name: str, command: Callable[[], Callable[..., Any]]) -> NoReturn:
    """The program ``name``; ``command`` imports its click command."""
    gc.disable()  # until the command runs: imports leave hardly any reference cycles to collect
    from coterie.runtime.interruption import INTERRUPTED, install

    def exit_if_interrupted(event: Any) -> None:
        """An interrupt that met a destructor or a callback of the import system would be printed and lost."""
        if event.exc_type is KeyboardInterrupt:
            os._exit(INTERRUPTED)
        sys.__unraisablehook__(event)

    install()
    sys.unraisablehook = exit_if_interrupted
    for stream in (sys.stdout, sys.stderr):
        # What an encoding lacks is shown as an escape; a stream that is closed is None.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    command()(prog_name=name)
    raise AssertionError("a command ends with SystemExit")
