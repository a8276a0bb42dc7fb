"""The addresses that commands listen on: HOST:PORT of an option, why one cannot be had, and who reaches it."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket

import click

from coterie.console.terminal import write_line
from coterie.text.addresses import format_address, parse_address

DEFAULT_LISTEN = "127.0.0.1:9092"
_ASYNCIO_BEFORE = r"^error while attempting to bind on address \(.*\): (\[errno \d+\] )?"


def address_of(text: str, option: str) -> tuple[str, int]:
    """The value of an option; without a host it is loopback."""
    try:
        host, port = parse_address(text)
    except ValueError as error:
        raise click.UsageError(
            f"{option} takes HOST:PORT, such as {DEFAULT_LISTEN} or [::1]:9092, not {text!r}."
        ) from error
    return host or "127.0.0.1", port


def bind_trouble(error: OSError) -> str:
    """The system's reason, without what asyncio writes before it."""
    return re.sub(_ASYNCIO_BEFORE, "", error.strerror or str(error))


insecure_option = click.option(
    "--insecure",
    is_flag=True,
    help="Listen beyond loopback without authentication, for everybody who reaches the address.",
)


def warn_of_exposure(option: str, host: str, port: int, harm: str) -> None:
    """One line where others than this machine can connect: there is neither authentication nor TLS."""
    if not is_loopback(host):
        shown = format_address(host, port)
        write_line(
            f"warning: {option} {shown} is beyond loopback, without authentication: every client that reaches it {harm}",
            err=True,
        )


async def resolves_to_loopback(host: str, port: int) -> bool:
    """Whether a server that listens there is reached from this machine alone; True of a name that cannot be resolved."""
    try:
        resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return True
    return all(is_loopback(str(address[0])) for *_, address in resolved)


def is_loopback(host: str) -> bool:
    """Whether an address, as a socket reports it, is loopback."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback
