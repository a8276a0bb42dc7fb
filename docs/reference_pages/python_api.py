"""The public Python API: what autodoc shows of each name that a package exports."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import coterie.client
import coterie.client.blocking
import coterie.testing
from coterie.testing import ErrorCode
from reference_pages import public_api


def _directive(module: str, name: str, kind: str, options: tuple[str, ...]) -> str:
    lines = [f".. {kind}:: {module}.{name}", *(f"   {option}" for option in options)]
    return "\n".join(["```{eval-rst}", *lines, "```", ""])


def _inherited(owner: type) -> tuple[str, ...]:
    """The option that shows what a base in coterie, which is not public itself, has of the class."""
    return (":inherited-members: Generic",) if public_api.private_bases(owner) else ()


def _exported(module: ModuleType) -> str:
    parts = []
    for name in public_api.exports(module):
        value = getattr(module, name)
        if value is ErrorCode:
            continue  # the page of error codes has it
        options: tuple[str, ...] = ()
        if not inspect.isclass(value):
            kind = "autofunction" if callable(value) else "autodata"
        elif issubclass(value, Exception):
            kind, options = "autoexception", (":show-inheritance:",)
        else:
            kind, options = "autoclass", (":members:", ":show-inheritance:", *_inherited(value))
        parts.append(f"### {name}\n\n{_directive(module.__name__, name, kind, options)}")
    return "\n".join(parts)


def python_client() -> str:
    return _exported(coterie.client)


def python_testing() -> str:
    return _exported(coterie.testing)


def python_blocking() -> str:
    return _exported(coterie.client.blocking)


def python_pipeline() -> str:
    """By name, so that the page can be made without Spark."""
    modules = [name for name in public_api.MODULES if name.startswith("coterie.pipeline.")]
    return "\n".join(_exported(importlib.import_module(name)) for name in modules)
