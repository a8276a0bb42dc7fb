"""`coterie broker --memory --control`: a broker that a test in any language controls over HTTP."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.parts.listening import DEFAULT_LISTEN, address_of, bind_trouble, resolves_to_loopback
from coterie.console.terminal import write_line
from coterie.runtime.extras import require
from coterie.text.addresses import format_address

if TYPE_CHECKING:
    from coterie.testing.control.operations import ControlledBroker

TOKEN_VARIABLE = "COTERIE_CONTROL_TOKEN"


@dataclass(frozen=True)
class Controlled:
    """What `checked` has read of the options. ``listen``: the address of a broker alone; None: of its listeners, or of a
    cluster."""

    control: tuple[str, int]
    token: str | None
    brokers: int
    listen: tuple[str, int] | None
    settings: Mapping[str, str]

    async def refuse_exposed(self, insecure: bool) -> None:
        """Raises UsageError for an address that others than this machine reach: without a token always, because its clients may
        do everything; with one unless ``insecure``, because the token is in the clear."""
        if (insecure and self.token is not None) or await resolves_to_loopback(*self.control):
            return
        token = f"a token by --control-token-file or {TOKEN_VARIABLE}, and " if self.token is None else ""
        raise click.UsageError(
            f"--control {format_address(*self.control)} is beyond loopback: give {token}--insecure, because the control API "
            "has no TLS."
        )

    async def serve(self, stop: asyncio.Event) -> int:
        """Until ``stop`` is set; returns the exit code."""
        from coterie.testing.control.operations import ControlledBroker

        address: dict[str, Any] = {} if self.listen is None else {"listen": format_address(*self.listen)}
        broker = ControlledBroker(self.settings, brokers=self.brokers, **address)
        try:
            await asyncio.to_thread(broker.start)
        except OSError as error:
            return _refused("--listen", self.listen or ("127.0.0.1", 0), error)
        try:
            return await self._control(stop, broker)
        finally:
            await asyncio.to_thread(broker.stop)

    async def _control(self, stop: asyncio.Event, broker: ControlledBroker) -> int:
        from importlib.metadata import version

        from coterie.testing.control.server import ControlServer

        server = ControlServer(broker, version("coterie"), self.token)
        try:
            host, port = await server.start(*self.control)
        except OSError as error:
            return _refused("--control", self.control, error)
        write_line(f"control API on http://{format_address(host, port)}")
        write_line(f"listening on {broker.bootstrap_servers}")
        await stop.wait()
        await server.stop()
        return 0


def checked(
    control: str, token_file: Path | None, brokers: int, settings: Mapping[str, str], listen: str | None
) -> Controlled:
    """Raises UsageError."""
    if listen is not None and brokers > 1:
        raise click.UsageError("--listen is for one broker: those of --brokers have free ports of 127.0.0.1.")
    require("http", "coterie broker --control")
    address, token = address_of(control, "--control"), _token(token_file)
    named = listen or (None if "listeners" in settings else DEFAULT_LISTEN)
    own = address_of(named, "--listen") if named is not None and brokers == 1 else None
    return Controlled(address, token, brokers, own, settings)


def _token(path: Path | None) -> str | None:
    """That of --control-token-file, else of the environment; None where there is none. Raises UsageError for an empty file."""
    if path is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    token = path.read_text().strip()
    if not token:
        raise click.UsageError(f"{path} is empty: --control-token-file takes a file with the token in it.")
    return token


def _refused(option: str, address: tuple[str, int], error: OSError) -> int:
    where = format_address(*address)
    write_line(f"Error: cannot listen on {where}: {bind_trouble(error)}; choose another {option}", err=True)
    return 1
