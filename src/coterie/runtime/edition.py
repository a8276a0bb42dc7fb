"""Which edition of the package runs: mypyc's of the broker's hot rooms (`compiled_edition.py`), or the interpreted one."""

from __future__ import annotations

from collections import Counter
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
COMPILED = "compiled"


def edition(package: Path = PACKAGE) -> str:
    """ "compiled" where extension modules lie beside the source in that folder, which Python then imports instead; else "pure
    Python". One of the compiled modules stands for all."""
    shard = package / "coordinator" / "shard"
    return COMPILED if any(shard.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES) else "pure Python"


def compiled_parts(package: Path = PACKAGE) -> list[str]:
    """A line for the record codecs, which a compiler at the installation makes fast, and one for the broker's modules, with
    their number in each room."""
    from coterie.records import compiled

    codecs = {"_encoding": compiled.ENCODING_COMPILED, "_rows": compiled.ROWS_COMPILED, "_unfold": compiled.COMPILED}
    built = {module for suffix in EXTENSION_SUFFIXES for module in package.rglob(f"*{suffix}")}
    modules_of = (m.relative_to(package).parts[0] for m in built if (m.parent / f"{_stem(m.name)}.py").exists())
    rooms = Counter(map(_stem, modules_of))
    modules = [f"{room} {count}" for room, count in sorted(rooms.items())]
    return [
        f"record codecs: {_stated([name for name, is_compiled in codecs.items() if is_compiled], len(codecs))}",
        f"broker modules: {_stated(modules, len(modules))}",
    ]


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _stated(names: list[str], all_names: int) -> str:
    if not names:
        return "interpreted"
    return f"compiled ({', '.join(names)}{'; the others interpreted' if len(names) < all_names else ''})"
