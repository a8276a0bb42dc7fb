"""Every generated file."""

from __future__ import annotations

from coterie_conformance.languages import go, java, rust, typescript


def sources() -> dict[str, str]:
    """By path from the repository's root."""
    return {one.PATH: one.source() for one in (go, java, rust, typescript)}
