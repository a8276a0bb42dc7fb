"""Runs the ``>>>`` examples in the docstrings of the public classes, ``await`` at the top level included.

Each docstring has a broker of its own with the topic ``orders`` (two partitions; the values ``1``, ``2`` and ``3`` in partition
0) and the group ``billing`` (no members; committed offset 2 of ``orders`` 0). The example sees these names:

| name | in the docstrings of |
|---|---|
| ``settings``: a dict with ``bootstrap.servers`` | every class and module |
| ``broker``: the `LocalBroker` | every class and module |
| ``admin``, ``producer``, ``consumer`` | the client's own class, asyncio or blocking; ``consumer`` is in no group |
| what `coterie.client` and the class's own package export | every class and module |

`CLIENTS` lists the clients. The output must be equal, with ``...`` for any text (doctest.ELLIPSIS);
an exception is stated as doctest does it.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import coterie.client
from coterie.broker.settings.tables.broker_table import KAFKA_AUTHORIZERS
from coterie.client import Admin, Consumer, Producer
from coterie.client.admin.each import Each
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.testing import LocalBroker

LIMIT_S = 30.0
OPTIONS = doctest.ELLIPSIS
AUTHORIZER = {"authorizer.class.name": KAFKA_AUTHORIZERS[0], "super.users": "User:ANONYMOUS"}  # for those of ACLs
CLIENTS: dict[type, tuple[str, Any]] = {
    Admin: ("admin", Admin),
    Each: ("admin", Admin),
    Consumer: ("consumer", Consumer),
    Producer: ("producer", Producer),
    BlockingAdmin: ("admin", BlockingAdmin),
    BlockingConsumer: ("consumer", BlockingConsumer),
    BlockingProducer: ("producer", BlockingProducer),
}


@dataclass(frozen=True, slots=True)
class Documented:
    """A docstring with examples: its qualified name, its text, the module whose exports it sees, and its class."""

    name: str
    text: str
    package: ModuleType
    owner: type | None


def documented(package: ModuleType) -> Iterator[Documented]:
    """The docstrings of a package, of the classes and functions that it exports, and of their public methods."""
    yield Documented(package.__name__, inspect.getdoc(package) or "", package, None)
    for export in package.__all__:
        value = getattr(package, export)
        if not inspect.isclass(value):
            continue
        yield from of_class(value, package, f"{package.__name__}.{export}")


def of_class(owner: type, package: ModuleType, name: str) -> Iterator[Documented]:
    yield Documented(name, owner.__doc__ or "", package, owner)
    bases = [base for base in owner.__mro__ if base.__module__.startswith("coterie.")]
    for attribute, value in (member for base in bases for member in vars(base).items()):
        target = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(target) and (not attribute.startswith("_") or attribute == "__init__"):
            yield Documented(f"{name}.{attribute}", inspect.getdoc(target) or "", package, owner)


def failures(item: Documented) -> list[str]:
    """What the examples of one docstring print otherwise than they state, a text each; empty where all is well."""
    test = doctest.DocTestParser().get_doctest(item.text, {}, item.name, None, 0)
    if not test.examples:
        return []
    with LocalBroker(AUTHORIZER) as broker:
        broker.create_topic("orders", 2)
        broker.produce("orders", b"1", b"2", b"3", partition=0)
        return asyncio.run(_failures(item, test, broker))


async def _failures(item: Documented, test: doctest.DocTest, broker: LocalBroker) -> list[str]:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    async with asyncio.timeout(LIMIT_S), contextlib.AsyncExitStack() as stack:
        async with Admin(settings) as preparing:
            await preparing.alter_consumer_group_offsets("billing", {("orders", 0): 2})
        names: dict[str, Any] = {n: getattr(m, n) for m in (coterie.client, item.package) for n in m.__all__}
        names |= {"settings": settings, "broker": broker, "asyncio": asyncio}
        if item.owner in CLIENTS:
            name, make = CLIENTS[item.owner]
            client = make(settings)
            if hasattr(client, "__aenter__"):
                names[name] = await stack.enter_async_context(client)
            else:
                names[name] = stack.enter_context(client)
        texts = [await _failure(example, names, item.name) for example in test.examples]
    return [text for text in texts if text]


async def _failure(example: doctest.Example, names: dict[str, Any], name: str) -> str:
    """Runs one example; returns "" where its output, or its exception, is as stated."""
    printed, raised = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        try:
            code = compile(example.source, f"<{name}>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            running = eval(code, names)
            if inspect.iscoroutine(running):
                await running
        except Exception as error:
            raised = "".join(traceback.format_exception_only(error))
    checker = doctest.OutputChecker()
    if raised:
        is_expected = example.exc_msg is not None and checker.check_output(example.exc_msg, raised, OPTIONS)
    else:
        is_expected = example.exc_msg is None and checker.check_output(example.want, printed.getvalue(), OPTIONS)
    if is_expected:
        return ""
    return f"{name}: {example.source}expected:\n{example.want}printed:\n{printed.getvalue()}{raised}"
