"""A broker that runs elsewhere with `--control`, with the methods of a `LocalBroker`: each is a request of the control API."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from coterie.authorizer.acls import Acl
from coterie.client import KafkaError
from coterie.coordinator.journal.line import JournalLine
from coterie.testing.argument_checks import error_code
from coterie.testing.control.operations import OPERATIONS, PATH, ControlledBroker, ControlOperation
from coterie.testing.faults import FaultRule

__tracebackhide__ = True  # for pytest: a failure is shown where the test called

_BEYOND_WAIT_S = 30.0  # an operation with a time-out responds so much later, at most
_RAISED: dict[int, type[Exception]] = {400: ValueError, 404: LookupError, 504: TimeoutError}


class _RemoteRules:
    """Stand-ins for the server's rules: only the number matters."""

    def __init__(self) -> None:
        self._rules: dict[int, FaultRule] = {}

    def number(self, rule: FaultRule) -> int:
        number = next((number for number, known in self._rules.items() if known is rule), None)
        if number is None:
            raise TypeError("rule must be what hold, fail, delay, cut or lose_response of this broker returned")
        return number

    def rule(self, number: int) -> FaultRule:
        return self._rules.setdefault(number, FaultRule("", None, None, 0))


class RemoteBroker(ControlledBroker):
    """``url``: what the broker printed as its control API, such as http://127.0.0.1:8090. Each method raises as LocalBroker's
    does, and OSError where nothing answers. A rule has no ``held`` here: `until_held` waits for it."""

    def __init__(self, url: str, token: str | None = None) -> None:
        address = urlsplit(url)
        if address.scheme != "http" or not address.hostname or address.port is None:
            raise ValueError(f"url must be http://HOST:PORT of a control API, not {url!r}")
        self._control_address = (address.hostname, address.port)
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._rules = _RemoteRules()

    def start(self) -> RemoteBroker:
        """Empties the broker, which runs already; returns itself."""
        self.reset()
        return self

    def stop(self, broker_id: int | None = None) -> None:
        """Of a cluster's broker a controlled shutdown; without an id nothing: the broker is another process's."""
        if broker_id is not None:
            self._operation(OPERATIONS["stop"], {"broker_id": broker_id})

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT, as every client takes it; those of all brokers with commas."""
        return self.addresses()

    @property
    def journal(self) -> list[JournalLine]:  # type: ignore[override]
        """Those of all groups so far; a new list each time."""
        return self.journal_lines()

    def _denied(self, acl: Acl) -> contextlib.AbstractContextManager[None]:
        raise ValueError(
            f"deny needs a broker in the test's own process; create the entry by `coterie acls` for this one: {acl.text}"
        )

    @contextlib.contextmanager
    def _holding(self, rule: FaultRule) -> Iterator[FaultRule]:
        added = self.hold_until_release(rule.api, group=rule.group, client_id=rule.client_id, times=rule.times)
        try:
            yield added
        finally:
            self.release(added)

    def _operation(self, operation: ControlOperation, values: dict[str, Any]) -> Any:
        arguments = {
            p.name: p.form.write(values[p.name], self._rules)
            for p in operation.parameters
            if values.get(p.name) is not None
        }
        connection = HTTPConnection(*self._control_address, timeout=values.get("timeout_s", 0.0) + _BEYOND_WAIT_S)
        try:
            connection.request("POST", PATH + operation.name, json.dumps(arguments), self._headers)
            response = connection.getresponse()
            status, document = response.status, json.loads(response.read())
        finally:
            connection.close()
        if status == 200:
            return operation.result.read(document["result"], self._rules)
        if "code" in document:
            raise KafkaError(error_code(document["code"]), document["error"].removeprefix(f"{document['code']}: "))
        raise _RAISED.get(status, RuntimeError)(document["error"])


def _remote(operation: ControlOperation) -> Callable[..., Any]:
    method = getattr(ControlledBroker, operation.method)
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(self: RemoteBroker, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        return self._operation(operation, bound.arguments)

    return call


for _one in OPERATIONS.values():
    if _one.method not in vars(RemoteBroker):
        setattr(RemoteBroker, _one.method, _remote(_one))
