"""The console's HTTP: documents, streams, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import quote

import aiohttp

from coterie.text.phrase import Phrase
from tests.web.explanations import explanation
from tests.web.feeds import HandFeed, events, line, row, served

HOSTILE = [
    "<script>alert(1)</script>",
    "\u202egnirts",
    "\x1b[31mred",
    "a/b?c#d%2F",
    "组",
    "x" * 32_000,
    "\"&'</script>",
]


async def test_the_streams_and_documents_of_the_contract() -> None:
    feed = HandFeed()
    feed.memory.rows.put(row("crew"))
    feed.memory.journal.add(line("crew"))
    feed.explanations["crew"] = explanation("crew", verdict="it waits", partitions=1, members=1)
    async with served(feed) as url, aiohttp.ClientSession() as session:
        [(name, rows)] = await events(session, f"{url}/api/events", 1)
        assert (name, rows) == ("rows", {"reset": True, "rows": [row("crew")], "removed": []})
        of_one = await events(session, f"{url}/api/groups/crew/events", 4)
        assert [name for name, _ in of_one] == ["history", "timeline", "changes", "explanation"]
        assert of_one[0][1] == [json.loads(line("crew").to_json()) | {"why": "anna joined"}]
        changes, shown = of_one[2][1], of_one[3][1]
        assert changes["lanes"] == [["orders", 0]], "no line named an owner: what is described begins the timeline"
        assert shown["verdict"] == "it waits"
        assert 0 < changes["owned"][0][1][2] <= shown["now_ms"]
        async with session.get(f"{url}/api/groups/crew/history") as response:
            assert await response.json() == of_one[0][1]


async def test_a_further_line_comes_after_the_history() -> None:
    feed = HandFeed()
    async with served(feed) as url, aiohttp.ClientSession() as session:
        streaming = asyncio.create_task(events(session, f"{url}/api/groups/crew/events", 5))
        while not feed.memory.journal.listeners:
            await asyncio.sleep(0)
        feed.memory.journal.add(line("others"))
        feed.memory.journal.add(line("crew", time_ms=2_000))
        feed.trouble = Phrase("of_kafka", {"error": "no broker answers"})
        (first, lines), *more = await streaming
        assert (first, lines) == ("history", [])
        assert sorted(name for name, _ in more) == ["changes", "line", "timeline", "trouble"]
        of_name = dict(more)
        assert of_name["line"]["time_ms"] == 2_000
        assert of_name["timeline"]["rebalances"] == []
        assert [at["generation"] for _, at in of_name["changes"]["rebalances"]] == [3]
        assert of_name["trouble"]["error"] == "no broker answers"
    assert not feed.memory.journal.listeners


async def test_every_response_has_the_security_headers_and_names_no_other_host() -> None:
    async with served(HandFeed()) as url, aiohttp.ClientSession() as session:
        for path in (
            "/console",
            "/console/groups/crew",
            "/api/groups/crew/history",
            "/static/groups.js",
            "/nowhere",
        ):
            async with session.get(url + path) as response:
                policy = response.headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'none'; script-src 'self';"), path
                assert "unsafe" not in policy
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                text = await response.text()
                assert "http://" not in text.replace("http://www.w3.org/", ""), path
                assert "https://" not in text, path
                assert response.status == (404 if path == "/nowhere" else 200)


async def test_foreign_hosts_and_origins_are_refused() -> None:
    async with served(HandFeed()) as url, aiohttp.ClientSession() as session:
        own = url.removeprefix("http://")
        for status, headers in (
            (200, {}),
            (200, {"Origin": url, "Sec-Fetch-Site": "same-origin"}),
            (200, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}),  # a link that leads here
            (403, {"Host": "elsewhere.example"}),
            (403, {"Host": own.replace("127.0.0.1", "127.0.0.1.elsewhere.example")}),
            (403, {"Origin": "http://elsewhere.example"}),
            (403, {"Origin": "null"}),
            (403, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}),
            (403, {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Origin": url}),
        ):
            async with session.get(f"{url}/api/groups/crew/history", headers=headers) as response:
                assert response.status == status, headers
                assert "Content-Security-Policy" in response.headers


async def test_static_files_alone_are_served() -> None:
    async with served(HandFeed()) as url, aiohttp.ClientSession() as session:
        for name in ("..%2Fserver.py", "%2e%2e%2ftexts.json", "..%5Cserver.py", "nothing.js", "server.py", ".js"):
            async with session.get(f"{url}/static/{name}") as response:
                assert response.status == 404, name
        for name, kind in (
            ("groups.js", "text/javascript"),
            ("console.css", "text/css"),
            ("icon.svg", "image/svg+xml"),
        ):
            async with session.get(f"{url}/static/{name}") as response:
                assert response.content_type == kind


async def test_hostile_names_are_text_in_every_page() -> None:
    async with served(HandFeed()) as url, aiohttp.ClientSession() as session:
        for name in HOSTILE:
            async with session.get(f"{url}/console/groups/{quote(name, safe='')}") as response:
                assert response.status == 200, name
                text = await response.text()
            assert "<script>alert" not in text
            assert "\u202e" not in text
            assert "\x1b" not in text
            assert f"/api/groups/{quote(name, safe='')}" in text


async def test_the_language_is_the_readers() -> None:
    jar = aiohttp.CookieJar(unsafe=True)  # of an address in figures too
    async with served(HandFeed()) as url, aiohttp.ClientSession(cookie_jar=jar) as session:
        for headers, query, shown in (
            ({}, "", 'lang="en"'),
            ({"Accept-Language": "fr, zh-CN;q=0.9, en;q=0.8"}, "", 'lang="zh"'),
            ({"Accept-Language": "zh"}, "?language=en", 'lang="en"'),
            ({"Accept-Language": "zh"}, "?language=xx", 'lang="en"'),  # the cookie of the request before
        ):
            async with session.get(f"{url}/console{query}", headers=headers) as response:
                assert f"<html {shown}" in await response.text(), headers


async def test_lines_that_were_forgotten_are_not_shown_beside_those_that_took_their_position() -> None:
    """An observer's lines, until the broker's own journal is there: a page that was open showed each rebalance twice."""
    feed = HandFeed()
    feed.memory.journal.add(line("crew"))
    async with served(feed) as url, aiohttp.ClientSession() as session:
        streaming = asyncio.create_task(events(session, f"{url}/api/groups/crew/events", 4))
        while not feed.memory.journal.listeners:
            await asyncio.sleep(0)
        feed.memory.forget_lines()
        feed.memory.journal.add(line("crew", time_ms=1_001))
        sent = await streaming
    assert [name for name, _ in sent] == ["history", "timeline"] * 2
    assert [len(sent[n][1]) for n in (0, 2)] == [1, 1]
    assert len(sent[3][1]["rebalances"]) == 1
