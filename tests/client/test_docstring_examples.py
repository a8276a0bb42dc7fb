"""Every example in a docstring of the public clients runs and prints what it states (below).
Runs the ``>>>`` examples in the docstrings of the public classes, ``await`` at the top level included.

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

import pytest

import coterie.client
import coterie.client.blocking
import coterie.testing
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
PACKAGES = (coterie.client, coterie.client.blocking, coterie.testing)


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


EACH = list(of_class(Each, coterie.client, "coterie.client.Admin.each"))
WITH_EXAMPLES = [item for package in PACKAGES for item in documented(package) if ">>>" in item.text]
WITH_EXAMPLES += [item for item in EACH if ">>>" in item.text]


@pytest.mark.parametrize("item", WITH_EXAMPLES, ids=lambda item: item.name)
def test_the_examples_of(item: Documented) -> None:
    assert failures(item) == []


def test_every_public_class_and_method_is_documented() -> None:
    items = [item for package in PACKAGES for item in documented(package)] + EACH
    assert len(items) > 250
    # The protocols `Serializer` and `Deserializer` have the texts.
    by_its_class = (".__init__", ".serialize", ".deserialize")
    assert [item.name for item in items if not item.text and not item.name.endswith(by_its_class)] == []


def test_the_first_example_is_among_them() -> None:
    assert "coterie.client.Admin.create_topic" in {item.name for item in WITH_EXAMPLES}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            ">>> await admin.partitions(['orders'])\n[]\n",
            "printed:\n[TopicPartition(topic='orders', partition=0),",
        ),
        (">>> await admin.partition(['orders'])\n", "AttributeError"),
        (">>> await admin.delete_topic('none')\n", "UNKNOWN_TOPIC_OR_PARTITION"),
        (">>> await admin.delete_topic('none')\nTraceback (most recent call last):\nValueError: no\n", "UNKNOWN_TOPIC"),
        (">>> len(broker.committed('billing'))\nTraceback (most recent call last):\nValueError: no\n", "printed:\n1"),
    ],
)
def test_an_example_that_states_something_else_is_a_failure(text: str, problem: str) -> None:
    (failure,) = failures(Documented("example", text, coterie.client, Admin))
    assert problem in failure


def test_names_stay_from_one_example_to_the_next_and_errors_may_be_stated() -> None:
    text = """
    >>> topics = await admin.partitions(["orders"])
    >>> for name, partition in topics:
    ...     print(name, partition)
    orders 0
    orders 1
    >>> await admin.delete_topic("none")
    Traceback (most recent call last):
        ...
    coterie.client...: UNKNOWN_TOPIC_OR_PARTITION: ...
    """
    assert failures(Documented("example", text, coterie.client, Admin)) == []
