"""The control API over HTTP. Each operation runs in a thread, where its waits hold nobody else up.

Who reaches it may do everything to the broker: it listens on loopback, or requires a token. A web page in the tester's browser
reaches loopback as well: a request with another Host, an Origin, or another Content-Type than JSON is refused.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp import web

from coterie.authentication.bearer import bears
from coterie.client import KafkaError
from coterie.testing.control.operations import OPERATIONS, PATH, ControlledBroker, ControlOperation, document
from coterie.testing.faults import FaultRule
from coterie.text.addresses import is_own_host

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
WAITING_AT_ONCE = 64
LARGEST_REQUEST = 64 * 1024 * 1024  # records to produce


class KeptRules:
    """The fault rules by number, until the next reset."""

    def __init__(self) -> None:
        self._rules: dict[int, FaultRule] = {}
        self._next = 1

    def number(self, rule: FaultRule) -> int:
        """That of a rule, which is kept from now on."""
        known = next((number for number, kept in self._rules.items() if kept is rule), None)
        if known is None:
            known, self._next = self._next, self._next + 1
            self._rules[known] = rule
        return known

    def rule(self, number: int) -> FaultRule:
        """Raises LookupError."""
        if number not in self._rules:
            raise LookupError(f"there is no rule {number}; a reset ends all rules")
        return self._rules[number]

    def clear(self) -> None:
        self._rules.clear()


class ControlServer:
    """``token``: what every request must bear, if any; ``version``: of the description."""

    def __init__(self, broker: ControlledBroker, version: str, token: str | None = None) -> None:
        self._broker, self._version, self._token = broker, version, token
        self._rules = KeptRules()
        self._names = {"localhost"}
        self._threads = ThreadPoolExecutor(WAITING_AT_ONCE, "coterie-control")
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listens; returns the address. Raises OSError."""
        self._names.add(host.lower())
        app = web.Application(client_max_size=LARGEST_REQUEST, middlewares=[self._guard])
        app.router.add_get("/health", self._health)
        app.router.add_get("/openapi.json", self._openapi)
        app.router.add_post(PATH + "{operation}", self._run)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        address = self._runner.addresses[0]
        self._names.add(str(address[0]))
        return str(address[0]), int(address[1])

    async def stop(self) -> None:
        """Waits for no operation that runs."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        hosts = request.headers.getall("Host", [])
        if self._token is None and not all(is_own_host(host, self._names) for host in hosts):
            return _error(403, "this Host is not the control API's")
        if "Origin" in request.headers:
            return _error(403, "the control API is not for web pages: a request with an Origin is refused")
        if self._token is not None and not bears(request.headers.get("Authorization", ""), self._token):
            return _error(401, "the header Authorization must be: Bearer, and the token")
        if request.method == "POST" and request.content_type != "application/json":
            return _error(415, "the Content-Type must be application/json")
        return await handler(request)

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"bootstrap_servers": self._broker.bootstrap_servers})

    async def _openapi(self, request: web.Request) -> web.Response:
        return web.json_response(document(self._version))

    async def _run(self, request: web.Request) -> web.Response:
        name = request.match_info["operation"]
        operation = OPERATIONS.get(name)
        if operation is None:
            return _error(404, f"there is no operation {name}; there are {', '.join(OPERATIONS)}")
        try:
            given = json.loads(await request.read() or b"{}")
        except (ValueError, RecursionError):
            return _error(400, "the body is not JSON")
        if not isinstance(given, dict):
            return _error(400, "the body must be a JSON object of arguments")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._result, operation, given)

    def _result(self, operation: ControlOperation, given: dict[str, Any]) -> web.Response:
        try:
            result = operation.run(self._broker, given, self._rules)
        except KafkaError as error:
            return _error(409, str(error), error.code.name)
        except (TypeError, ValueError) as error:
            return _error(400, str(error))
        except LookupError as error:
            return _error(404, str(error))
        except TimeoutError as error:
            return _error(504, str(error))
        if operation.name == "reset":
            self._rules.clear()
        return web.json_response({"result": result})


def _error(status: int, text: str, code: str | None = None) -> web.Response:
    body = {"error": text} if code is None else {"error": text, "code": code}
    return web.json_response(body, status=status)
