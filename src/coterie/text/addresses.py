"""HOST:PORT as text, with the brackets of RFC 3986 around an IPv6 host, and whether a Host header names a server."""

from __future__ import annotations

import ipaddress
from collections.abc import Set
from urllib.parse import urlsplit

HIGHEST_PORT = 65_535


def format_address(host: str, port: int) -> str:
    """``127.0.0.1:9092``, ``[::1]:9092``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """The host without brackets, empty where the text has none, and the port. Raises ValueError."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > HIGHEST_PORT:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def is_own_host(header: str, names: Set[str]) -> bool:
    """Whether a Host header is one of the names, or a loopback address; with 0.0.0.0 or :: among the names, any address in
    figures, since no name leads there."""
    try:
        host = (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if host in names:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or not names.isdisjoint({"0.0.0.0", "::"})
