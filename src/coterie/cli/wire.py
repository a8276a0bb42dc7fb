"""`coterie wire`: what goes over the wire, and the code that puts it there."""

from __future__ import annotations

import click

from coterie.cli.invocation import json_option
from coterie.console.terminal import write_json, write_lines, write_text


@click.command(
    epilog="""\b
Examples:
  coterie wire                          every API with the versions served
  coterie wire JoinGroupRequest 9       the generated encoder and decoder
"""
)
@click.argument("message", required=False)
@click.argument("version", type=int, required=False)
@json_option
def wire(message: str | None, version: int | None, as_json: bool) -> None:
    """Show a message's fields and its generated codec, or all APIs."""
    from coterie.wire.apis import APIS
    from coterie.wire.codec import source
    from coterie.wire.primitives import WireError

    if message is None:
        rows = [(a.key, a.name, a.advertised.first, a.advertised.last) for a in APIS.values()]
        if as_json:
            names = ("key", "name", "first", "last")
            write_json([dict(zip(names, row, strict=True)) for row in rows], indent=2)
        else:
            write_lines(f"{key:3} {name:22} {first} to {last}" for key, name, first, last in rows)
        return
    known = {m.__name__: m for a in APIS.values() for m in (a.request, a.response)}
    if message not in known:
        raise click.UsageError(
            f"There is no message {message}; a message is an API's name with Request or Response, such as JoinGroupRequest."
        )
    kind = known[message]
    try:
        text = source(kind, kind.versions.last if version is None else version)
    except WireError as error:
        raise click.UsageError(f"{error}; there are {kind.versions.first} to {kind.versions.last}.") from error
    if as_json:
        write_json({"message": message, "source": text})
    else:
        write_text(text)
