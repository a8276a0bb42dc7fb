"""The program's entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from coterie.program import run


def main() -> NoReturn:
    """`coterie-conformance`, and `python -m coterie_conformance`."""

    def command() -> Callable[..., Any]:
        from coterie_conformance.cli import main

        return main

    run("coterie-conformance", command)
