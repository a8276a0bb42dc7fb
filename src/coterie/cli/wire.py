"""`coterie wire`: what goes over the wire, and the code that puts it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from coterie.cli.parts.invocation import json_option
from coterie.console.terminal import write_json, write_lines, write_text

if TYPE_CHECKING:
    from coterie.cli.parts.json_documents import MessageSource, ServedApi


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
        served: list[ServedApi] = [
            {"key": a.key, "name": a.name, "first": a.advertised.first, "last": a.advertised.last}
            for a in APIS.values()
        ]
        if as_json:
            write_json(served, indent=2)
        else:
            write_lines(f"{a['key']:3} {a['name']:22} {a['first']} to {a['last']}" for a in served)
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
        document: MessageSource = {"message": message, "source": text}
        write_json(document)
    else:
        write_text(text)
