"""The addresses that commands listen on: HOST:PORT of an option, why one cannot be had, and who reaches it: loopback alone, or
with the certificate and token of the command's options."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from coterie.cli.parts.invocation import FILE, F
from coterie.console.terminal import write_line
from coterie.text.addresses import format_address, parse_address
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    import ssl

DEFAULT_LISTEN = "127.0.0.1:9092"
_ASYNCIO_BEFORE = r"^error while attempting to bind on address \(.*\): (\[errno \d+\] )?"
LEAST_TOKEN = 16
LET_IN = "--insecure to let everybody in"


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


class PageAccess(NamedTuple):
    """What the options say, whose names have a ``prefix``. ``names``: further ones of this host. ``token``: what each request
    must bear; None for none."""

    prefix: str = ""
    names: tuple[str, ...] = ()
    tls: ssl.SSLContext | None = None
    token: str | None = None

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"

    def refuse_without_pages(self) -> None:
        """Raises UsageError for an option that says something of pages which are not served."""
        given = {"name": self.names, "tls-certificate": self.tls, "token-file": self.token}
        for name, value in given.items():
            if value:
                raise click.UsageError(f"--{self.prefix}{name} goes with --http.")

    async def refuse_exposed(self, option: str, address: tuple[str, int], otherwise: str = LET_IN) -> None:
        """Raises UsageError for an address that others than this machine reach, without TLS and a token."""
        if (self.tls is None or self.token is None) and not await resolves_to_loopback(*address):
            options = f"--{self.prefix}tls-certificate, --{self.prefix}tls-key and --{self.prefix}token-file"
            raise click.UsageError(
                f"{option} {format_address(*address)} is beyond loopback: give {options}, or {otherwise}."
            )


def page_access_options(prefix: str, pages: str, token_help: str) -> Callable[[F], F]:
    """--name, --tls-certificate, --tls-key and --token-file with a ``prefix``: ``access``, a PageAccess. The command raises
    UsageError for a certificate without its key, and for files that are none. ``pages``: their name in help texts."""
    mark = prefix.replace("-", "_")
    options = [
        click.option(
            f"--{prefix}name",
            f"{mark}names",
            multiple=True,
            metavar="NAME",
            help="A further name of this host, such as a proxy's; may be given again.",
        ),
        click.option(
            f"--{prefix}tls-certificate", type=FILE, metavar="FILE", help=f"The certificate chain of {pages}, in PEM."
        ),
        click.option(f"--{prefix}tls-key", type=FILE, metavar="FILE", help="Its private key, in PEM."),
        click.option(f"--{prefix}token-file", type=FILE, metavar="FILE", help=token_help),
    ]

    def add(command: F) -> F:
        @functools.wraps(command)
        def with_access(*args: Any, **options: Any) -> Any:
            names, certificate, key, token_file = (
                options.pop(mark + name) for name in ("names", "tls_certificate", "tls_key", "token_file")
            )
            access = PageAccess(prefix, names, _tls(certificate, key, prefix), _token(token_file))
            return command(*args, access=access, **options)

        for option in reversed(options):
            option(with_access)
        return with_access  # type: ignore[return-value]  # a parameter less

    return add


def _tls(certificate: Path | None, key: Path | None, prefix: str) -> ssl.SSLContext | None:
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


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    token = file.read_text("utf-8", "replace").strip()
    if len(token) < LEAST_TOKEN:
        raise click.UsageError(
            f"the token in {file} must have {quantity(LEAST_TOKEN, 'character')} or more, not {len(token)}."
        )
    return token
