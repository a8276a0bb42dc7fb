"""TLS in asyncio, also in a broker's process, whose asyncio was imported without `ssl` so that it starts sooner (`cli`)."""

from __future__ import annotations

import asyncio.base_events
import asyncio.selector_events
import asyncio.sslproto
import importlib


def enable() -> None:
    """Connections can be made with a context of `ssl` from now on."""
    if asyncio.sslproto.ssl is not None:  # type: ignore[attr-defined]
        return
    import ssl

    for module in (asyncio.base_events, asyncio.selector_events):
        module.ssl = ssl
    importlib.reload(asyncio.sslproto)  # which defines some names only with it
