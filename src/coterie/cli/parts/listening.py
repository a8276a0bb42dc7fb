"""The addresses that commands listen on: HOST:PORT of an option, why one cannot be had, who reaches it, and the certificate and
token of pages that others reach."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.console.terminal import write_line
from coterie.text.addresses import format_address, parse_address
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    import ssl

DEFAULT_LISTEN = "127.0.0.1:9092"
LEAST_TOKEN = 16
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


def pages_tls(certificate: Path | None, key: Path | None, prefix: str = "") -> ssl.SSLContext | None:
    """Of --tls-certificate and --tls-key, with a ``prefix`` in their names. Raises UsageError for one without the other, and
    for files that are none."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise click.UsageError(f"--{prefix}tls-certificate and --{prefix}tls-key go together.")
    import ssl  # which imports OpenSSL

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise click.UsageError(
            f"{certificate} and {key} are no certificate in PEM with its key: {error.strerror or error}."
        ) from error
    return context


def pages_token(file: Path | None) -> str | None:
    """The text of the file. Raises UsageError for a short one."""
    if file is None:
        return None
    token = file.read_text("utf-8", "replace").strip()
    if len(token) < LEAST_TOKEN:
        raise click.UsageError(
            f"the token in {file} must have {quantity(LEAST_TOKEN, 'character')} or more, not {len(token)}."
        )
    return token


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
