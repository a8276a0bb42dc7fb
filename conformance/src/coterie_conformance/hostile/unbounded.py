"""A broker with one bound of its code switched off, for the checks of the attacks: each must be seen to fail.

    python -m coterie_conformance.hostile.unbounded NAME broker …

Bounds that are settings are switched off by them.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable
from types import ModuleType

from coterie.broker.clients import scram_credentials
from coterie.broker.connections import listener_tls, request_queue
from coterie.program import main

_ALLOW_CLIENT_RENEGOTIATION = 1 << 8  # OpenSSL 3's, which `ssl` does not name


def _set(module: ModuleType, name: str, value: object) -> None:
    if not hasattr(module, name):
        raise AttributeError(f"{module.__name__} has no {name}: its bound is elsewhere now")
    setattr(module, name, value)


def _iterations() -> None:
    _set(scram_credentials, "MAX_ITERATIONS", 2**31 - 1)


def _renegotiation() -> None:
    bounded = listener_tls._context

    def unbounded(*given: object) -> ssl.SSLContext:
        context = bounded(*given)  # type: ignore[arg-type]
        context.options = context.options & ~ssl.OP_NO_RENEGOTIATION | _ALLOW_CLIENT_RENEGOTIATION
        return context

    _set(listener_tls, "_context", unbounded)


def _unreadable() -> None:
    """Frames that cannot be read are no longer expected."""
    _set(request_queue, "UNREADABLE", ())


SWITCHES: dict[str, Callable[[], None]] = {
    "iterations": _iterations,
    "renegotiation": _renegotiation,
    "unreadable": _unreadable,
}


if __name__ == "__main__":
    SWITCHES[sys.argv.pop(1)]()
    main()
