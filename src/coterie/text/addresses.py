"""HOST:PORT as text, with the brackets of RFC 3986 around an IPv6 host."""

from __future__ import annotations

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
