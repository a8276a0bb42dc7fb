"""The console's HTTP server: pages, scripts, documents and event streams."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from aiohttp import web

from coterie.client import KafkaError
from coterie.observer.deploys import UnpredictableGroup
from coterie.web.changes import Changes, RefusedChange, UnfitChange
from coterie.web.cluster_documents import ClusterDocuments
from coterie.web.event_streams import events_of_all, events_of_one, send_events
from coterie.web.feeds.feed import GroupFeed, refusal
from coterie.web.group_memory import history_json
from coterie.web.guards import SIGN_IN, Guards, add_headers, refuse_other_origins
from coterie.web.pages import LANGUAGES, language_of, page
from coterie.web.records.record_reading import RecordReader
from coterie.web.records.schema_registry import SchemaRegistry
from coterie.web.what_if import DeployPredictions, UnfitDeploy

LINE_BYTES = 128 * 1024  # of a request: a group's name may have 32 kB, three characters for each in an address
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
LANGUAGE_COOKIE = "language"


class Console:
    """The routes over one feed."""

    def __init__(self, feed: GroupFeed, registry: SchemaRegistry | None = None, *, allow_changes: bool = False) -> None:
        self._feed = feed
        self._changes = Changes(feed.client) if allow_changes else None
        self._cluster, self._records = ClusterDocuments(feed.client), RecordReader(feed.client, registry)
        self._stopping, self._what_if = asyncio.Event(), DeployPredictions(feed.client, feed.memory.journal)

    def add_to(self, app: web.Application) -> None:
        """Adds the routes to a server that checks the Host itself, with what else protects them."""
        app.middlewares.append(refuse_other_origins)
        app.on_response_prepare.append(add_headers)
        app.on_shutdown.append(self._stop)
        app.router.add_get("/console", self._groups)
        app.router.add_get("/console/groups/{group}", self._group)
        app.router.add_get("/console/topics", self._topic_list)
        app.router.add_get("/console/topics/{topic}", self._topic)
        app.router.add_get("/console/brokers", self._broker_list)
        app.router.add_get("/api/topics", self._topics)
        app.router.add_get("/api/topics/{topic}", self._topic_document)
        app.router.add_get("/api/topics/{topic}/records", self._record_rows)
        app.router.add_get("/api/brokers", self._brokers)
        app.router.add_get("/api/events", self._events)
        app.router.add_get("/api/groups/{group}/history", self._history)
        app.router.add_get("/api/groups/{group}/events", self._group_events)
        app.router.add_post("/api/groups/{group}/predict", self._predict)
        app.router.add_get("/static/{name}", _static)
        if self._changes is not None:
            app.router.add_post("/api/changes/{step:plan|work}", self._change)

    async def _stop(self, app: web.Application) -> None:
        self._stopping.set()  # ends the event streams
        self._cluster.close()

    async def _groups(self, request: web.Request) -> web.Response:
        return self._page(request, "groups.html")

    async def _group(self, request: web.Request) -> web.Response:
        name = request.match_info["group"]
        return self._page(request, "group.html", group=name, group_path=quote(name, safe=""))

    async def _topic_list(self, request: web.Request) -> web.Response:
        return self._page(request, "topics.html")

    async def _topic(self, request: web.Request) -> web.Response:
        name = request.match_info["topic"]
        return self._page(request, "topic.html", topic=name, topic_path=quote(name, safe=""))

    async def _broker_list(self, request: web.Request) -> web.Response:
        return self._page(request, "brokers.html")

    def _page(self, request: web.Request, template: str, **values: str) -> web.Response:
        return page_response(request, template, allow_changes=self._changes is not None, **values)

    async def _history(self, request: web.Request) -> web.Response:
        lines = self._feed.memory.journal.of(request.match_info["group"])
        return web.Response(text=history_json(lines), content_type="application/json")

    async def _change(self, request: web.Request) -> web.Response:
        """A change, planned or done."""
        assert self._changes is not None
        is_plan = request.match_info["step"] == "plan"
        return await _worked(request, partial(self._changes.work, dry_run=is_plan))

    async def _predict(self, request: web.Request) -> web.Response:
        return await _worked(request, partial(self._what_if.predict, request.match_info["group"]))

    async def _topics(self, request: web.Request) -> web.Response:
        return await _document(self._cluster.topics())

    async def _topic_document(self, request: web.Request) -> web.Response:
        return await _document(self._cluster.topic(request.match_info["topic"]))

    async def _record_rows(self, request: web.Request) -> web.Response:
        offset, time_ms = _number(request, "offset"), _number(request, "time_ms")
        partition, count = _number(request, "partition") or 0, _number(request, "count") or 50
        topic = request.match_info["topic"]
        return await _document(self._records.read(topic, partition, offset=offset, time_ms=time_ms, count=count))

    async def _brokers(self, request: web.Request) -> web.Response:
        async def described() -> dict[str, Any]:
            return await self._cluster.brokers() | {"own": self._feed.figures()}

        return await _document(described())

    async def _events(self, request: web.Request) -> web.StreamResponse:
        return await send_events(request, self._feed.memory, events_of_all(self._feed, self._stopping))

    async def _group_events(self, request: web.Request) -> web.StreamResponse:
        group = request.match_info["group"]
        return await send_events(request, self._feed.memory, events_of_one(self._feed, group, self._stopping))


async def _worked(request: web.Request, work: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> web.Response:
    """What the work makes of the request's JSON object. Its type keeps out what a form of another page could send."""
    if request.content_type != "application/json":
        return web.json_response(refusal(UnfitChange("not_json")), status=415)
    try:
        wanted = await request.json()
        if not isinstance(wanted, dict):
            raise UnfitChange("not_an_object")
        document = await work(wanted)
    except ValueError:
        return web.json_response(refusal(UnfitChange("not_json")), status=400)
    except (UnfitChange, UnfitDeploy, UnpredictableGroup) as error:
        return web.json_response(refusal(error), status=400)
    except (RefusedChange, KafkaError) as error:
        return web.json_response(refusal(error), status=409)
    return web.json_response(document)


async def _document(work: Awaitable[Any]) -> web.Response:
    """What the work returns, or the cluster's refusal, as JSON."""
    try:
        document = await work
    except KafkaError as error:
        return web.json_response(refusal(error), status=502)
    if document is None:
        return web.json_response(refusal(UnfitChange("no_partition")), status=404)
    return web.json_response(document)


def _number(request: web.Request, name: str) -> int | None:
    """A parameter of the address. Raises HTTPBadRequest."""
    text = request.query.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise web.HTTPBadRequest(text=f"{name} must be a whole number") from None


def page_response(request: web.Request, template: str, **values: Any) -> web.Response:
    """A page in the reader's language."""
    chosen = request.query.get("language")
    wanted = (chosen, request.cookies.get(LANGUAGE_COOKIE))
    language = language_of(wanted, request.headers.get("Accept-Language", ""))
    response = web.Response(text=page(template, language, **values), content_type="text/html", charset="utf-8")
    if chosen in LANGUAGES:
        response.set_cookie(LANGUAGE_COOKIE, chosen, samesite="Strict", httponly=True, max_age=365 * 86_400)
    return response


async def _static(request: web.Request) -> web.Response:
    """A file of the package; names with a separator lead nowhere."""
    name = request.match_info["name"]
    file = files("coterie.web") / "static" / name
    kind = KINDS.get("." + name.rpartition(".")[2])
    if kind is None or "/" in name or "\\" in name or not file.is_file():
        raise web.HTTPNotFound
    return web.Response(body=file.read_bytes(), content_type=kind, charset="utf-8")


class ConsoleServer:
    """Serves a console alone; an async context, which ends its streams."""

    def __init__(
        self,
        feed: GroupFeed,
        names: Iterable[str] = (),
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        registry: SchemaRegistry | None = None,
        allow_changes: bool = False,
    ) -> None:
        self._console, self._tls = Console(feed, registry, allow_changes=allow_changes), tls
        self._guards = Guards({name.lower() for name in names}, token, has_tls=tls is not None)
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listens; returns the address. Raises OSError."""
        self._guards.names.add(host.lower())
        app = web.Application(client_max_size=1024 * 1024, middlewares=[self._guards.check])
        app.router.add_get("/", _to_console)
        app.router.add_get(SIGN_IN, _sign_in)
        app.router.add_post(SIGN_IN, self._signed_in)
        self._console.add_to(app)
        self._runner = web.AppRunner(app, access_log=None, max_line_size=LINE_BYTES, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, ssl_context=self._tls).start()
        address = self._runner.addresses[0]
        return str(address[0]), int(address[1])

    async def _signed_in(self, request: web.Request) -> web.Response:
        token = str((await request.post()).get("token", ""))
        return self._guards.signed_in(token.strip()) or page_response(request, "sign_in.html", is_wrong=True)

    async def __aenter__(self) -> ConsoleServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()


async def _sign_in(request: web.Request) -> web.Response:
    return page_response(request, "sign_in.html", is_wrong=False)


async def _to_console(request: web.Request) -> web.Response:
    raise web.HTTPFound("/console")
