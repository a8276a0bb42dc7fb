"""`coterie bench`: figures of this machine, as a table or JSON."""

from __future__ import annotations

import json

import click

from coterie.cli.running import json_option

PART_NAMES = ("start", "records", "groups", "rebalance", "spark")


@click.command(
    epilog="""\b
Examples:
  coterie bench
  coterie bench --part groups --json
"""
)
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(PART_NAMES), help="Only this part; may be given again."
)
@json_option
def bench(parts: tuple[str, ...], as_json: bool) -> None:
    """Measure: start, memory, produce, fetch, heartbeats, commits, rebalances, Spark. Takes about a minute and a half."""
    from coterie.bench.measure import Row, run_parts

    def tell(row: Row) -> None:
        if not as_json:
            ratio = "" if row.ratio is None else f"{row.ratio:6.2f} x the aim of {row.aim:,g}"
            click.echo(f"{row.name:42} {row.value:14,.2f} {row.unit:7} {ratio}")

    rows = run_parts(list(parts) or list(PART_NAMES), tell)
    if as_json:
        told = [
            {
                "name": r.name,
                "value": round(r.value, 3),
                "unit": r.unit,
                "aim": r.aim,
                "ratio": r.ratio and round(r.ratio, 2),
            }
            for r in rows
        ]
        click.echo(json.dumps(told, indent=2))
