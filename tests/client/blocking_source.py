"""Writes src/coterie/client/blocking/{consumer,share_consumer,producer,admin,admin_calls,admin_each}.py from the clients on
asyncio: each public method with the same parameters and the awaited result, so that a type checker sees them.
`python -m tests.client.blocking_source` writes the files; tests/client/blocking/test_blocking.py fails when they differ.

Three methods are other than in the asyncio clients, and written here: `send` and `commit_async` return a
concurrent.futures.Future, and `transaction` is a plain context manager.
"""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
import textwrap
from pathlib import Path

CLIENT = Path(__file__).parents[2] / "src" / "coterie" / "client"
RESULTS = {
    "consumer.py": "Consumer",
    "share_consumer.py": "ShareConsumer",
    "producer.py": "Producer",
    "admin.py": "Admin",
    "admin_calls.py": "AdminCalls",
    "admin_each.py": "Each",
}
SOURCES = {
    "Consumer": "consumer/consumer.py",
    "ShareConsumer": str(Path("share", "consumer.py")),
    "Producer": "producer/producer.py",
    "Admin": "admin/admin.py",
    "AdminCalls": "admin/acls.py",
    "Each": "admin/each.py",
}
CLASSES = {"AdminCalls": "AclCalls"}  # where the name is another
# Methods in a file of their own.
BASES = {
    "Consumer": [("consumer/positions.py", "ConsumerPositions")],
    "AdminCalls": [
        ("admin/brokers.py", "BrokerCalls"),
        ("admin/configs.py", "ConfigCalls"),
        ("admin/delegation_tokens.py", "TokenCalls"),
        ("admin/quotas.py", "QuotaCalls"),
        ("admin/share_offsets.py", "ShareOffsetCalls"),
        ("admin/transactions.py", "TransactionCalls"),
        ("admin/users.py", "ScramCalls"),
    ],
    "Each": [("admin/configs.py", "EachConfigCalls")],
}
HEADERS = {
    "Consumer": '''
        class BlockingConsumer(BlockingClient[Consumer[K, V]], Generic[K, V]):
            """`coterie.client.Consumer` for programs without asyncio. Listeners, interceptors and callbacks run on the client's
            own thread.

            >>> from_start = settings | {"auto.offset.reset": "earliest"}
            >>> with BlockingConsumer(from_start, value_deserializer=StringDeserializer()) as reader:
            ...     reader.assign([("orders", 0)])
            ...     print([record.value for records in reader.poll(10_000).values() for record in records])
            ['1', '2', '3']
            """

            # __init__

            def __iter__(self) -> Iterator[Record[K, V]]:
                """Records one after the other; each counts as a poll. Raises as `poll` does, and PartitionsLostError."""
                records = aiter(self._client)
                while True:
                    yield self._await(anext, records)
        ''',
    "ShareConsumer": '''
        class BlockingShareConsumer(BlockingClient[ShareConsumer[K, V]], Generic[K, V]):
            """`coterie.client.ShareConsumer` for programs without asyncio. The acknowledgement-commit callback runs on the
            client's own thread."""

            # __init__

            def __iter__(self) -> Iterator[ShareRecord[K, V]]:
                """Records one after the other, as of `coterie.client.ShareConsumer`. Raises as `poll` does."""
                records = aiter(self._client)
                while True:
                    yield self._await(anext, records)

            def commit_async(self) -> Future[Results]:
                """As `coterie.client.ShareConsumer.commit_async`; the future has the results."""
                return self._future(self._client.commit_async)
        ''',
    "Producer": '''
        class BlockingProducer(BlockingClient[Producer[K, V]], Generic[K, V]):
            """`coterie.client.Producer` for programs without asyncio.

            >>> with BlockingProducer(settings) as writer:
            ...     futures = [writer.send("orders", b"%d" % n, partition=1) for n in range(3)]
            >>> print([future.result().offset for future in futures])
            [0, 1, 2]
            """

            # __init__

            def send(
                self,
                topic: str,
                value: V | None,
                key: K | None = None,
                *,
                partition: int | None = None,
                timestamp_ms: int | None = None,
                headers: Sequence[Header] = (),
                on_delivery: DeliveryCallback | None = None,
            ) -> Future[RecordMetadata]:
                """As `coterie.client.Producer.send`; returns once the record is in its batch. The future's result is known when
                the broker has acknowledged the record; `flush` waits for all of them."""
                delivery = self._await(
                    self._client.send,
                    topic,
                    value,
                    key,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    headers=headers,
                    on_delivery=on_delivery,
                )
                return self._call(delivery.to_future)

            @contextlib.contextmanager
            def transaction(self) -> Iterator[None]:
                """Begins a transaction; commits it at the end of the block, aborts it when the block raises."""
                transaction = self._client.transaction()
                self._await(transaction.__aenter__)
                try:
                    yield
                except BaseException as error:
                    self._await(transaction.__aexit__, type(error), error, error.__traceback__)
                    raise
                self._await(transaction.__aexit__, None, None, None)
        ''',
    "Admin": '''
        class BlockingAdmin(BlockingAdminCalls):
            """`coterie.client.Admin` for programs without asyncio. The futures of `each` are concurrent.futures.Future.

            >>> futures = admin.each.delete_topics(["orders", "none"])
            >>> futures["orders"].result()
            >>> futures["none"].exception().code
            <ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 3>
            """

            # __init__
                self.each: BlockingEach = BlockingEach(self)
        ''',
    "AdminCalls": '''
        class BlockingAdminCalls(BlockingClient[Admin]):
            """Of `BlockingAdmin`."""
        ''',
    "Each": '''
        class BlockingEach:
            """`Admin.each` for programs without asyncio, as `BlockingAdmin.each`: every method returns at once a
            concurrent.futures.Future for each thing, in the order given. A future has the result of the method of `Admin` that
            does the same for one, or its KafkaError; RuntimeError where the admin is closed before the response."""

            def __init__(self, admin: BlockingClient[Admin]) -> None:
                self._admin = admin
                self._each = admin._client.each
        ''',
}
COMMIT_ASYNC = '''
    def commit_async(self, offsets: Offsets | None = None, callback: Callback | None = None) -> Future[None]:
        """As `coterie.client.Consumer.commit_async`; the future raises what the commit failed with."""
        return self._future(self._client.commit_async, offsets, callback)
    '''
OWN = {
    "Producer": {"send", "transaction"},
    "Consumer": {"commit_async"},
    "ShareConsumer": {"commit_async"},
    "Admin": set(),
    "AdminCalls": set(),
    "Each": set(),
}
IMPORTS = {
    "Consumer": "from concurrent.futures import Future\nfrom collections.abc import Iterator, Mapping\n"
    "from typing import Any, Generic\nfrom coterie.client.consumer.consumer import Consumer\n",
    "ShareConsumer": "from concurrent.futures import Future\nfrom collections.abc import Iterator, Mapping\n"
    "from typing import Any, Generic\nfrom coterie.client.share.consumer import ShareConsumer\n",
    "Producer": "import contextlib\nfrom concurrent.futures import Future\n"
    "from collections.abc import Iterator, Mapping, Sequence\n"
    "from typing import Any, Generic\nfrom coterie.client.producer.producer import Producer\n",
    "Admin": "from collections.abc import Mapping\nfrom coterie.client.admin.admin import Admin\n"
    "from coterie.client.blocking.admin_calls import BlockingAdminCalls\n"
    "from coterie.client.blocking.admin_each import BlockingEach\n",
    "AdminCalls": "from coterie.client.admin.admin import Admin\n",
    "Each": "from concurrent.futures import Future\nfrom coterie.client.admin.admin import Admin\n"
    "from coterie.client.admin.each import NewTopic\n",
}


def source(file: str) -> str:
    """The text of one file of the package."""
    name = RESULTS[file]
    module, client = _parsed(SOURCES[name], CLASSES.get(name, name))
    modules, bodies = [module], [client.body]
    for file, class_name in BASES.get(name, ()):
        base_module, base = _parsed(file, class_name)
        modules.append(base_module)
        bodies.append(base.body)
    methods = [
        _method(node, name)
        for node in itertools.chain(*bodies)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
    ]
    header = textwrap.dedent(HEADERS[name])
    for node in client.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            header = header.replace("    # __init__\n", textwrap.indent(_init(node, name), "    "))
    body = header.rstrip() + "\n\n" + "\n".join(textwrap.indent(text, "    ") for text in methods if text)
    if name == "Consumer":
        body += textwrap.indent(textwrap.dedent(COMMIT_ASYNC), "    ")
    origin = "the bases of `coterie.client.Admin`" if name in CLASSES else f"`coterie.client.{name}`"
    heading = f'"""Blocking{name}: written by tests/client/blocking_source.py from {origin}."""\n'
    text = f"{heading}\nfrom __future__ import annotations\n\n{IMPORTS[name]}"
    text += "from coterie.client.blocking.thread import BlockingClient\n" + _imports(modules, body, SOURCES[name])
    return _formatted(text + body)


def _parsed(file: str, name: str) -> tuple[ast.Module, ast.ClassDef]:
    module = ast.parse((CLIENT / file).read_text())
    (client,) = (node for node in module.body if isinstance(node, ast.ClassDef) and node.name == name)
    return module, client


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> str:
    """The text of a method, or "" for one that is written by hand."""
    if node.name in OWN[owner]:
        return ""
    returns = ast.unparse(node.returns)  # type: ignore[arg-type]
    decorators = [d.id for d in node.decorator_list if isinstance(d, ast.Name) and d.id not in ("repeated", "or_each")]
    if "property" in decorators:
        run = f"return self._call(lambda: self._client.{node.name})"
    elif owner == "Each":
        returns = re.sub(r"^Futures\[(\w+), (.*)\]$", r"dict[\1, Future[\2]]", returns)
        run = f"return self._admin._futures({', '.join([f'self._each.{node.name}', *_names(node)])})"
    else:
        run = _call(node)
    doc = (ast.get_docstring(node) or "").partition("\n>>>")[0].strip()
    lines = [f"@{d}" for d in decorators]
    lines.append(f"def {node.name}({ast.unparse(node.args)}) -> {returns}:")
    if doc:
        lines.append(textwrap.indent(f'"""{doc}"""', "    "))
    return "\n".join([*lines, "    " + run, ""])


def _init(node: ast.FunctionDef, name: str) -> str:
    making = f"{name}({', '.join(_names(node))})"
    return f"def __init__({ast.unparse(node.args)}) -> None:\n    super().__init__(lambda: {making})\n"


def _call(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    given = [f"self._client.{node.name}", *_names(node)]
    how = "_await" if isinstance(node, ast.AsyncFunctionDef) else "_call"
    if node.name == "close":
        how = "_close"
    returns = "" if ast.unparse(node.returns) == "None" else "return "  # type: ignore[arg-type]
    return f"{returns}self.{how}({', '.join(given)})"


def _names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [a.arg for a in node.args.args[1:]] + [f"{a.arg}={a.arg}" for a in node.args.kwonlyargs]


def _imports(modules: list[ast.Module], body: str, file: str) -> str:
    """The imports of the asyncio modules that the text needs, and what they define themselves."""
    wanted = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    lines: list[str] = []
    typing_only: list[str] = []
    for node in itertools.chain(*(module.body for module in modules)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines += _needed(node, wanted)
        elif isinstance(node, ast.If):
            for inner in node.body:
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    typing_only += _needed(inner, wanted)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in wanted:
            lines.append(f"from coterie.client.{file[:-3].replace('/', '.')} import {node.targets[0].id}")
    if typing_only:
        lines.append("from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    " + "\n    ".join(typing_only))
    return "\n".join(lines) + "\n\n"


def _needed(node: ast.Import | ast.ImportFrom, wanted: set[str]) -> list[str]:
    names = [alias for alias in node.names if (alias.asname or alias.name) in wanted]
    if not names or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
        return []
    return [ast.unparse(type(node)(**{**vars(node), "names": names}))]


def _formatted(text: str) -> str:
    for command in (["check", "--fix", "--quiet", "--select", "F401,F811,I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(CLIENT / "blocking" / "x.py"), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    for file in RESULTS:
        (CLIENT / "blocking" / file).write_text(source(file))
