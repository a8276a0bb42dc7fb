"""The pages of `coterie broker --http`: groups and metrics, and on loopback the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import click

from coterie.cli.parts.listening import PageAccess, address_of, bind_trouble, resolves_to_loopback, warn_of_exposure
from coterie.console.terminal import write_line
from coterie.text.addresses import format_address

if TYPE_CHECKING:
    from aiohttp.web import Application

    from coterie.broker.broker import Broker


class HttpPages(NamedTuple):
    """What the options say of HTTP."""

    address: tuple[str, int]
    access: PageAccess
    allow_changes: bool


def http_pages(http: str | None, access: PageAccess, allow_changes: bool) -> HttpPages | None:
    """Raises UsageError for options that go with --http."""
    from coterie.runtime.extras import require

    if http is not None:
        require("http", "coterie broker --http")
        return HttpPages(address_of(http, "--http"), access, allow_changes)
    access.refuse_without_pages()
    if allow_changes:
        raise click.UsageError("--allow-changes goes with --http.")
    return None


async def serve_http(broker: Broker, pages: HttpPages) -> bool:
    """Serves groups and metrics over HTTP as well; False, with an error written, where the address cannot be used. On loopback
    with the console: elsewhere that requires TLS, which `coterie console` has. Its clients need a listener without TLS and
    SASL."""
    from coterie.broker.web.http import HttpServer

    access = pages.access
    plain = next((one for one in broker.listeners if not (one.has_tls or one.has_sasl)), None)
    is_open = await resolves_to_loopback(*pages.address) and access.token is None
    console = console_of(broker, *plain.address, allow_changes=pages.allow_changes) if plain and is_open else None
    if console is None and pages.allow_changes:
        text = (
            "--allow-changes needs an --http on loopback without a token, and a listener without TLS and SASL for the "
            "console's clients"
        )
        write_line(f"Error: {text}", err=True)
        return False
    try:
        host, port = await broker.serve_http(
            HttpServer(broker, access.names, console, tls=access.tls, token=access.token), *pages.address
        )
    except OSError as error:
        where = format_address(*pages.address)
        write_line(f"Error: cannot listen on {where} for HTTP: {bind_trouble(error)}; choose another --http", err=True)
        return False
    if access.token is None:
        warn_of_exposure("--http", host, port, "can read every group")
    write_line(f"groups and metrics on {access.scheme}://{format_address(host, port)}", err=True)
    if console is not None:
        write_line(f"console on {access.scheme}://{format_address(host, port)}/console", err=True)
    return True


def console_of(broker: Broker, host: str, port: int, *, allow_changes: bool = False) -> Callable[[Application], None]:
    """The console over what the broker hands; its clients use the broker's own listener."""
    from coterie.broker.web.handed_groups import HandedGroups
    from coterie.web.feeds.handed_feed import HandedFeed
    from coterie.web.server import Console

    feed = HandedFeed(HandedGroups(broker), {"bootstrap.servers": format_address(host, port)})

    def add_to(app: Application) -> None:
        Console(feed, allow_changes=allow_changes).add_to(app)
        app.cleanup_ctx.append(feed.running)

    return add_to
