"""Which edition of the package runs: mypyc's of the broker's hot rooms (`compiled_edition.py`), or the interpreted one."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

PACKAGE = Path(__file__).parent
COMPILED = "compiled"


def edition(package: Path = PACKAGE) -> str:
    """ "compiled" where extension modules lie beside the source in that folder, which Python then imports instead; else "pure
    Python". One of the compiled modules stands for all."""
    shard = package / "coordinator" / "shard"
    return COMPILED if any(shard.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES) else "pure Python"
