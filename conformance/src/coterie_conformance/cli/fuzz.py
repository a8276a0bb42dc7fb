"""`coterie-conformance fuzz`: generated and mutated bytes to every decoder, for minutes or hours."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from coterie.cli.parts.option_values import NumberRange
from coterie.console.terminal import write_line, write_lines
from coterie.runtime.extras import is_installed
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie_conformance.fuzzing.runner import BreakingInput
    from coterie_conformance.fuzzing.target import Target


@click.command(
    epilog="""\b
Examples:
  coterie-conformance fuzz --minutes 1
  coterie-conformance fuzz --minutes 60 --target records --target legacy
  coterie-conformance fuzz --list
"""
)
@click.option(
    "--minutes", type=NumberRange(min=0), default=5.0, show_default=True, help="The duration of the whole run."
)
@click.option(
    "--target",
    "names",
    multiple=True,
    help="Only this target; may be given again. A part of a name selects all that have it.",
)
@click.option("--seed", type=int, default=None, help="Decides which inputs are made; by default the time of day.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "atheris", "own"]),
    default="auto",
    show_default=True,
    help="What mutates inputs: Atheris, guided by coverage, or the built-in rules.",
)
@click.option("--list", "listing", is_flag=True, help="Print the targets and end.")
def fuzz(minutes: float, names: tuple[str, ...], seed: int | None, engine: str, listing: bool) -> None:
    """Feed generated and mutated bytes to every decoder.

    For any bytes, a decoder returns or raises one of its declared errors, in bounded time and memory. An input that
    breaks this is printed as a line of the corpus (`fuzzing/corpus.txt`), and the exit code is 1.
    """
    from coterie_conformance.fuzzing.targets import TARGETS

    chosen = [t for t in TARGETS.values() if not names or any(name in t.name for name in names)]
    if not chosen:
        raise click.UsageError(f"No target has {' or '.join(names)} in its name; --list prints them.")
    if listing:
        for target in chosen:
            write_line(f"{target.name:40} {target.what}")
        return
    if engine == "atheris" and not is_installed("atheris"):
        raise click.ClickException("--engine atheris needs atheris: pip install 'coterie-conformance[fuzz]'")
    seed = int(time.time()) if seed is None else seed
    by_atheris = engine == "atheris" or (engine == "auto" and is_installed("atheris"))
    write_line(
        f"{quantity(len(chosen), 'target')} for {minutes:g} min, seed {seed}, {'Atheris' if by_atheris else 'built-in rules'}"
    )
    findings = 0
    for finding in (_by_atheris if by_atheris else _by_own_rules)(chosen, 60 * minutes, seed):
        findings += 1
        write_lines((finding.problem, f"  {finding.corpus_line}"))
    if findings:
        raise SystemExit(1)


def _by_own_rules(targets: Sequence[Target], seconds: float, seed: int) -> Iterator[BreakingInput]:
    from coterie_conformance.fuzzing.runner import fuzz as run

    tried = dict.fromkeys((target.name for target in targets), 0)

    def progress(target: Target, number: int) -> None:
        tried[target.name] += number

    yield from run(targets, seconds, seed, progress)
    write_line(f"{quantity(sum(tried.values()), 'input')}, at least {min(tried.values()):,} for each target")


def _by_atheris(targets: Sequence[Target], seconds: float, seed: int) -> Iterator[BreakingInput]:
    from coterie_conformance.fuzzing.runner import BreakingInput
    from coterie_conformance.fuzzing.with_atheris import run_target

    for target in targets:
        status, data, output = run_target(target.name, seconds / len(targets), seed)
        if status == 0:
            write_line(
                f"{target.name}: {next((x for x in reversed(output.splitlines()) if x.startswith('Done')), 'done')}"
            )
        elif data is not None:
            lines = [line for line in output.splitlines() if target.name in line or "ERROR" in line]
            yield BreakingInput(target.name, lines[0] if lines else f"{target.name}: status {status}", data)
        else:
            raise click.ClickException(f"Atheris ended with status {status} for {target.name}: {output}")
