"""The console in a browser: every page, in light and dark, wide and narrow, with hostile names; and what is seen when."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Route

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import Admin, Consumer, Producer
from coterie.laboratory.prediction import Deploy, DeployedGroup, named, setting_phrase, usual_alternatives
from coterie.laboratory.study.group import StudySetting
from coterie.observer.explanations import last_events
from coterie.text.hidden import visible
from coterie.text.phrase import Phrase, phrase_fields
from coterie.web import event_streams, group_memory
from coterie.web.feeds import handed_feed, observed_feed
from coterie.web.feeds.feed import refusal
from coterie.web.what_if import UnfitDeploy, past, predicted_with_timelines
from coterie_conformance.console.browser import chromium, opened, violations
from tests.web.explanations import explanation
from tests.web.feeds import HandFeed, line, row, served
from tests.web.in_browser import in_a_browser
from tests.web.test_server import HOSTILE

pytestmark = [pytest.mark.slow, in_a_browser]
SIZES = [({"width": 1280, "height": 900}, "light"), ({"width": 390, "height": 800}, "dark")]
SEEN_S = 2.0  # within which a change is on the page, on a machine that keeps up (tests.web.in_browser.many_groups measures it)
PATIENCE_MS = 30_000
BEGAN_MS = 1_795_000_000_000


def feed_of(*groups: str) -> HandFeed:
    feed = HandFeed()
    for name in groups:
        feed.memory.rows.put(row(name))
        feed.memory.take(line(name))
        feed.explanations[name] = explanation(name)
    return feed


PAGES = {
    "/console": "#groups .tall .row",
    "/console/groups/crew": "#members .tall .row",
    "/console/topics": "#topics .tall .row",
    "/console/topics/flights": "#records tbody tr",
    "/console/brokers": "#clients tbody tr",
}
PAYLOADS = [
    b"<script>alert(1)</script>",
    "\u202egnirts".encode(),
    b"\x1b[31mred",
    b'{"a": "<img src=x onerror=alert(1)>"}',
    None,
]


def prediction_document() -> dict[str, Any]:
    """As the server predicts a restart of two members, under their settings and static."""
    study = StudySetting("", "eager", session_timeout_ms=6_000, heartbeat_interval_ms=1_000, assignor="range")
    group, deploy = DeployedGroup(2, 4, 10.0, named(study)), Deploy(2_000, 5_000)
    alternatives = usual_alternatives(group.setting, deploy, serves_consumer=False)
    partitions = [("orders", number) for number in range(4)]
    made, timelines = predicted_with_timelines(group, deploy, alternatives, HOSTILE[:2], partitions)
    owners = {HOSTILE[0]: {"orders": [0, 1, 2, 3]}}
    seen = [line("crew", "rebalance_started", BEGAN_MS), line("crew", time_ms=BEGAN_MS + 3_000, owners=owners)]
    documents = [timeline.document(visible) for timeline in timelines]
    return {"group": "crew", **asdict(deploy), **asdict(made), "assumed": list(HOSTILE)} | {
        "timelines": documents,
        "setting_phrases": [],
        "was": past("crew", seen, HOSTILE[:2], 4),
    }


@contextlib.asynccontextmanager
async def broker_with_records() -> AsyncIterator[dict[str, Any]]:
    """Client settings of a broker whose topic flights has hostile records."""
    broker = Broker(BrokerSettings({}))
    host, port = await broker.start("127.0.0.1", 0)
    client = {"bootstrap.servers": f"{host}:{port}"}
    try:
        async with Admin(client) as admin:
            await admin.create_topic("flights", 1, {"retention.ms": "1000000"})
        async with Producer(client) as producer:
            for data in PAYLOADS:
                await producer.send("flights", data, data, headers=[("<b>h</b>\u202e", data)])
        yield client
    finally:
        await broker.stop()


async def test_pages_show_hidden_characters_as_the_terminal_does() -> None:
    outside = "\n\r\t\0\x1b\x7f\x9f\u061c\u200b\u200d\u2029\u202e\u2066\ufeff\ufffeé中👩\U0001f600"
    async with served(feed_of("crew")) as url, chromium() as browser, opened(browser, url, "/console") as page:
        script = "async (text) => (await import('/static/live.js')).visible(text)"
        assert await page.evaluate(script, outside) == visible(outside)
        assert len(visible(outside)) > 4 * 15


async def test_every_page_is_accessible_and_complains_of_nothing() -> None:
    feed = feed_of("crew", "billing")
    feed.memory.rows.put(row("waits", state="PreparingRebalance", marks=["waits", "flaps", "stalls", "lost"]))
    async with broker_with_records() as feed.client, served(feed) as url, chromium() as browser:
        for size, scheme in SIZES:
            for path, shown in PAGES.items():
                async with opened(browser, url, path, viewport=size, color_scheme=scheme) as page:
                    await page.wait_for_selector(shown)
                    assert await violations(page) == [], (path, scheme)
                    wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
                    assert not wide, (path, size)


async def test_hostile_records_are_shown_as_text() -> None:
    feed = HandFeed()
    async with (
        broker_with_records() as feed.client,
        served(feed) as url,
        chromium() as browser,
        opened(browser, url, "/console/topics/flights") as page,
    ):
        await page.wait_for_selector("#records tbody tr")
        shown = await page.inner_text("#records")
        assert "<script>alert(1)</script>" in shown
        assert "\\u202egnirts" in shown
        assert "1b 5b 33 31 6d" in shown
        assert "<b>h</b>\\u202e" in shown
        assert not await page.evaluate("document.querySelectorAll('#records script, #records img, #records b').length")
        await page.select_option("[name=by]", "offset")
        await page.fill("[name=offset]", "3")
        await page.click("#read [type=submit]")
        await page.wait_for_selector("#records tbody tr:nth-child(2)")
        await page.wait_for_selector("#records tbody tr:nth-child(3)", state="detached")


async def test_a_change_is_seen_while_one_looks() -> None:
    """Its pauses, on the way to a page, leave half a second of the two."""
    for rows_s in (observed_feed.ROWS_EVERY_S, handed_feed.UPDATE_EVERY_S):
        assert rows_s + event_streams.LOOK_S + event_streams.EVERY_S <= SEEN_S - 0.5
    feed = feed_of("crew")
    async with served(feed) as url, chromium() as browser:
        async with opened(browser, url, "/console") as page:
            await page.wait_for_selector("text=Stable")
            feed.memory.rows.put(row("crew", state="PreparingRebalance", marks=["waits"]))
            feed.memory.rows.put(row("new"))
            await page.wait_for_selector(".mark.waits", timeout=PATIENCE_MS)
            await page.wait_for_selector("text=new", timeout=PATIENCE_MS)
            feed.memory.rows.remove("new")
            await page.wait_for_selector("a:has-text('new')", state="hidden", timeout=PATIENCE_MS)
            feed.trouble = Phrase("of_kafka", {"error": "no broker answers"})
            await page.wait_for_selector("#trouble:has-text('no broker answers')", timeout=PATIENCE_MS)
            feed.trouble = None
            await page.wait_for_selector("#trouble", state="hidden", timeout=PATIENCE_MS)
        async with opened(browser, url, "/console/groups/crew") as page:
            await page.wait_for_selector("#members .tall .row")
            late = explanation("crew", members=2, state="PreparingRebalance", in_state_ms=61_000)
            late["verdict"] = f"it waits for {late['members'][0]['member_id']}"
            feed.explanations["crew"] = late
            feed.memory.take(line("crew", time_ms=2_000, causes=[{"kind": "member_left", "client_id": "anna"}]))
            await page.wait_for_selector("#verdict:text-is('it waits for client-0')", timeout=PATIENCE_MS)
            await page.wait_for_selector("#clock:text-matches('^PreparingRebalance for 6[1-9] s:$')")


async def test_hostile_names_are_shown_as_text() -> None:
    feed = HandFeed()
    for name in HOSTILE:
        feed.memory.rows.put(row(name, why=name, kind=name))
        feed.memory.take(line(name, causes=[{"kind": name, "client_id": name, "reason": name}]))
        member = explanation(name, verdict=name)
        member["members"][0] |= {"client_id": name, "host": name, "client_software": name}
        feed.explanations[name] = member
    async with served(feed) as url, chromium() as browser:
        async with opened(browser, url, "/console") as page:
            await page.wait_for_selector("#groups .tall .row")
            shown = await page.inner_text("#groups")
            assert "<script>alert(1)</script>" in shown
            assert "\\u202egnirts" in shown
            assert "\\x1b[31mred" in shown
            assert not await page.evaluate("document.querySelectorAll('#groups script').length")
        for name in HOSTILE:
            async with opened(browser, url, f"/console/groups/{quote(name, safe='')}") as page:
                await page.wait_for_selector("#members .tall .row")
                assert not await page.evaluate("document.querySelectorAll('#group script').length")


async def test_groups_are_sorted_and_found_by_keyboard_alone() -> None:
    feed = HandFeed()
    for n in range(500):
        feed.memory.rows.put(row(f"group-{n:03}", lag=n))
    async with served(feed) as url, chromium() as browser, opened(browser, url, "/console") as page:
        await page.wait_for_selector("#groups .tall .row")
        await page.evaluate("document.querySelector('#groups .scroll').scrollTop = 9000")
        await page.select_option("#sort", "lag")
        await page.wait_for_selector(".row[aria-rowindex='2']:has-text('group-499')")
        await page.keyboard.press("/")
        await page.keyboard.type("group-12")
        await page.wait_for_selector("#counts:has-text('10')")
        await page.focus("#groups .scroll")
        for key in ("ArrowDown", "ArrowDown", "End", "Home"):
            await page.keyboard.press(key)
        assert await page.evaluate("document.activeElement.textContent") == "group-129"
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console/groups/group-129")


async def test_a_chosen_language_and_theme_stay() -> None:
    context = {"locale": "en-GB"}
    async with (
        served(feed_of("crew")) as url,
        chromium() as browser,
        opened(browser, url, "/console", **context) as page,
    ):
        await page.click("text=中文")
        await page.wait_for_selector("h1:has-text('消费者组')")
        await page.click("#theme")
        await page.wait_for_selector("html[data-theme=dark]")
        await page.reload()
        await page.wait_for_selector("html[data-theme=dark][lang=zh]")
        assert await violations(page) == []


async def test_a_chinese_page_words_the_sentences_of_the_server() -> None:
    feed = feed_of("crew")
    late = explanation("crew")["members"][1]["member_id"]
    then = Phrase("then_one_removed", {"removed": 1, "members": 3, "leaving": (late,)})
    feed.explanations["crew"] = explanation(
        "crew",
        state="PreparingRebalance",
        **phrase_fields("verdict", Phrase("waits_for_joins", {"late": (late,), "joined": 2, "members": 3})),
        **phrase_fields("unseen", Phrase("unseen", {"watched_ms": 4_000})),
        waiting_for=[{"member_id": late, "client_id": "client-1", **phrase_fields("owes", Phrase("owes_join", {}))}],
        next_timeout={
            "name": "rebalance timeout",
            "member_id": None,
            "left_ms": 9_000,
            **phrase_fields("then", then),
        },
    )
    causes = [{"kind": "member_joined", "member_id": late, "client_id": "client-1"}]
    feed.memory.take(line("crew", "rebalance_started", BEGAN_MS, causes=causes))
    shown = {
        "#verdict": "重平衡在等待 client-1 重新加入；3 个成员中已有 2 个加入",
        "#next": "秒后 重平衡超时；然后 移除 3 个成员中的 1 个（client-1），其余继续",  # the clock before it runs
        "#unseen": "已观察 4 秒；心跳、计时器以及谁已加入，从外部看不到：coterie 代理会显示",
        "#members": "尚未再次发送 JoinGroup",
        "#lines tbody tr:first-child": "client-1 加入",
    }
    async with (
        served(feed) as url,
        chromium() as browser,
        opened(browser, url, "/console/groups/crew", locale="zh-CN") as page,
    ):
        await page.wait_for_selector("#members .tall .row")
        for selector, words in shown.items():
            await page.locator(selector).filter(has_text=words).wait_for(timeout=PATIENCE_MS)
        document = prediction_document()
        recommended = Phrase("deploy_best_as_is", {"unowned_s": "1.5", "rebalances": 6})
        assumed = Phrase("assumed_default", {"name": "session.timeout.ms", "value": 45_000})
        document |= phrase_fields("recommendation", recommended)
        document |= {"assumed": [str(assumed)], "assumed_phrases": [asdict(assumed)]}
        document["setting_phrases"] = [asdict(setting_phrase(StudySetting("", "eager", assignor="range")))]
        await page.route("**/predict", lambda route: route.fulfill(json=document))
        await page.click("#what-if [type=submit]")
        await page.wait_for_selector("#what-if-answer:has-text('保持现有设置：这次部署使每个分区无所有者 1.5 秒')")
        assert await page.inner_text("#what-if-assumed") == "假定：session.timeout.ms 未知：假定为默认值 45000"
        assert "range，会话 45 秒（当前）" in await page.inner_text("#what-if-table tbody tr:first-child")


async def test_a_chinese_page_words_causes_tasks_and_errors() -> None:
    feed = feed_of("crew", "streams")
    causes = [{"kind": "session_timeout", "client_id": "ben", "evidence": "inferred", "rule": "silent_for_session"}]
    feed.memory.rows.put(row("crew", causes=causes, more_causes=2))
    happened = last_events([line("crew", "rebalance_started", causes=causes)])
    watched = Phrase("and_watched", {"phrase": Phrase("seen_stable", {"members": 3}), "happened": happened})
    feed.explanations["crew"] = explanation("crew", **phrase_fields("verdict", watched))
    restores = Phrase("restores", {"task": "1_0", "member": "app", "seconds": 12, "records": 300})
    streams = feed.explanations["streams"]
    streams["members"][0] |= {"restoring": [str(restores)], "restoring_phrases": [asdict(restores)]}
    async with served(feed) as url, chromium() as browser:
        async with opened(browser, url, "/console", locale="zh-CN") as page:
            words = "ben 在会话超时内没有心跳 (推断：静默了一个会话) 以及另外 2 个"
            await page.wait_for_selector(f"#groups .why:text-is('{words}')", timeout=PATIENCE_MS)
            feed.trouble = Phrase("of_kafka", {"error": "NETWORK_EXCEPTION: no broker"})
            await page.wait_for_selector(
                "#trouble:text-is('来自 Kafka 的错误：NETWORK_EXCEPTION: no broker')", timeout=PATIENCE_MS
            )
        async with opened(browser, url, "/console/groups/crew", locale="zh-CN") as page:
            words = "组稳定，有 3 个成员；观察期间：重平衡开始，ben 在会话超时内没有心跳 (推断：静默了一个会话)"
            await page.wait_for_selector(f"#verdict:text-is('{words}')", timeout=PATIENCE_MS)
            refused = refusal(UnfitDeploy("prediction_under_way"))
            await page.route("**/predict", lambda route: route.fulfill(json=refused))
            await page.click("#what-if [type=submit]")
            await page.wait_for_selector("#what-if-answer:text-is('另一个预测正在进行；请在它完成后重试')")
        async with opened(browser, url, "/console/groups/streams", locale="zh-CN") as page:
            await page.wait_for_selector("#tasks .row:has-text('任务 1_0 正在 app 上恢复，已 12 秒，落后 300 条记录')")


async def test_a_change_is_shown_before_it_is_done() -> None:
    feed = feed_of("crew")
    async with (
        broker_with_records() as feed.client,
        served(feed, allow_changes=True) as url,
        chromium() as browser,
        Admin(feed.client) as admin,
    ):
        async with Consumer(feed.client | {"group.id": "crew"}) as consumer:
            await consumer.assign([("flights", 0)])
            await consumer.commit({("flights", 0): 4})
        async with opened(browser, url, "/console/groups/crew") as page:
            await page.wait_for_selector("#members .tall .row")
            await page.click("[data-change=reset] [type=submit]")
            await page.wait_for_selector("#change-table td:has-text('4')")
            assert await violations(page) == []
            assert list((await admin.list_consumer_group_offsets("crew")).values()) == [4]
            await page.click("#change-cancel")
            assert list((await admin.list_consumer_group_offsets("crew")).values()) == [4]
            await page.click("[data-change=reset] [type=submit]")
            await page.click("#change-do")
            await page.wait_for_selector("#change-words:has-text('Done')")
            assert list((await admin.list_consumer_group_offsets("crew")).values()) == [0]


async def test_a_prediction_is_drawn_beside_what_was() -> None:
    feed, asked = feed_of("crew"), list[Any]()
    document = prediction_document()

    async def respond(route: Route) -> None:
        asked.append(route.request.post_data_json)
        await route.fulfill(json=document)

    async with served(feed) as url, chromium() as browser:
        for size, scheme in SIZES:
            path = "/console/groups/crew"
            async with opened(browser, url, path, viewport=size, color_scheme=scheme) as page:
                await page.wait_for_selector("#lines tbody tr")
                await page.route("**/predict", respond)
                await page.select_option("[name=one]", "one")
                await page.click("#what-if [name=go]")
                await page.wait_for_selector(f"#what-if-answer:has-text('{document['recommendation']}')")
                shown = await page.inner_text("#what-if-table tbody")
                assert "range, session 6.0 s (today)" in shown
                assert "seen since" in shown
                drawn = page.locator("#what-if-timeline .timeline-details")
                assert "Rebalances: 4." in await drawn.inner_text()
                await page.select_option("#what-if-chosen", "1")
                assert "Rebalances: 0." in await drawn.inner_text(), "static"
                assert "Rebalances: 1." in await page.locator("#what-if-past .timeline-details").inner_text()
                script = "(ids) => ids.map((id) => document.getElementById(id).timeline).map((t) => t.to - t.from)"
                was, predicted = await page.evaluate(script, ["what-if-past", "what-if-timeline"])
                assert abs(was - predicted) < 0.03 * predicted, "a second is as wide in both"
                assert await violations(page) == []
                assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert asked[0] == {"pause_ms": 8_000, "gap_ms": 30_000, "kill": False, "only_one": True}


async def test_a_stranger_finds_in_three_clicks_why_a_group_paused() -> None:
    """Who knows nothing of rebalances: the group that is marked, the step back to what happened last, and its words."""
    feed = feed_of("billing", "quiet")
    feed.memory.rows.put(row("crew", marks=["waits"]))
    feed.explanations["crew"] = explanation("crew")
    member_id = "ben-6a24e2da-0000-4000-8000-000000000000"
    causes = [{"kind": "session_timeout", "member_id": member_id, "client_id": "ben"}]
    for at_ms, event in ((0, "rebalance_started"), (9_000, "generation_formed"), (9_200, "stable")):
        feed.memory.take(line("crew", event, BEGAN_MS + at_ms, causes=causes))
    async with served(feed) as url, chromium() as browser, opened(browser, url, "/console") as page:
        await page.get_by_text("crew", exact=True).click()
        await page.locator(".timeline-details").get_by_text("Rebalances: 1").wait_for(timeout=PATIENCE_MS)
        last = "The last one, 9.2 s: ben was silent for its session timeout."
        assert last in await page.locator(".timeline-details").inner_text(), "without a further click"
        await page.get_by_role("button", name="Previous rebalance").click()
        words = await page.locator(".timeline-details").inner_text()
        assert "ben was silent for its session timeout" in words
        assert "9.2 s" in words, "for how long it paused"


async def test_a_group_that_is_not_known_yet_is_called_so_until_it_is() -> None:
    feed = feed_of()
    async with served(feed) as url, chromium() as browser, opened(browser, url, "/console/groups/crew") as page:
        await page.wait_for_selector("#verdict:has-text('Nothing is known of this group yet')", timeout=PATIENCE_MS)
        feed.explanations["crew"] = explanation("crew")
        await page.wait_for_selector("#members .tall .row", timeout=PATIENCE_MS)
        assert "Nothing is known" not in await page.inner_text("#verdict")


@pytest.mark.parametrize("path", ["/console", "/console/groups/crew"])
async def test_ten_minutes_of_changes_leave_the_memory_of_a_page_as_it_was(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change for each second of them, faster than they come; what the page holds is measured after a garbage collection."""
    monkeypatch.setattr(event_streams, "LOOK_S", 0.005)
    monkeypatch.setattr(event_streams, "EVERY_S", 0.01)
    monkeypatch.setattr(event_streams, "LINES_FOLLOWED", 100)
    monkeypatch.setattr(group_memory, "LINES_OF_A_GROUP", 50)
    feed = feed_of("crew", *(f"group-{n:03}" for n in range(500)))

    def change(number: int) -> None:
        name = f"group-{number % 500:03}"
        course = [number + n for n in range(30)]
        feed.memory.rows.put(row(name, course=course, rebalance_ms=BEGAN_MS + number, why=f"{number} joined"))
        owners = {f"anna-{number % 3}": {"orders": [number % 2]}, "ben": {"orders": [1 - number % 2]}}
        feed.memory.take(line("crew", "rebalance_started", BEGAN_MS + number * 1_000))
        feed.memory.take(line("crew", time_ms=BEGAN_MS + number * 1_000 + 500, owners=owners))
        feed.explanations["crew"] = explanation("crew", lag=number, verdict=f"generation {number}")

    async with served(feed) as url, chromium() as browser, opened(browser, url, path) as page:
        await page.wait_for_selector(".tall .row")
        devtools = await page.context.new_cdp_session(page)

        async def held(first: int, last: int) -> tuple[float, int]:
            for number in range(first, last):
                change(number)
                await asyncio.sleep(0.02)
            await page.wait_for_timeout(500)
            await devtools.send("HeapProfiler.collectGarbage")
            heap, counters = (
                await devtools.send("Runtime.getHeapUsage"),
                await devtools.send("Memory.getDOMCounters"),
            )
            return heap["usedSize"] / 1e6, counters["nodes"]

        heap_mb, nodes = await held(0, 600)  # every row has come again, and the lines are as many as are kept
        after_mb, after_nodes = await held(600, 1_200)
        assert after_mb < heap_mb * 1.05 + 0.1, (heap_mb, after_mb)
        assert after_nodes < nodes * 1.2 + 100, (nodes, after_nodes)


async def test_a_streams_group_has_lanes_by_task_and_a_share_group_several_owners() -> None:
    feed = feed_of("streams", "share")
    feed.memory.journal.clear()
    streams = explanation("streams", members=2, partitions=2, protocol_type="streams")
    restores = f"task 1_0 restores on {HOSTILE[0]} for 12 s, 300 records behind"
    roles = {"active": ["0_0", "1_0"], "standby": ["0_1"], "warmup": [], "restoring": [restores]}
    streams["members"][0] |= roles
    streams["members"][1] |= {"active": ["0_1"], "standby": ["1_0"], "warmup": ["0_0"], "restoring": []}
    share = explanation("share", members=2, partitions=1, protocol_type="share")
    share["partitions"][0] |= {"owner": None, "owners": [m["member_id"] for m in share["members"]]}
    feed.explanations = {"streams": streams, "share": share}
    lanes = (
        "(({model}) => model.order.map((lane) => model.laneName(lane)))(document.getElementById('timeline').timeline)"
    )
    async with served(feed) as url, chromium() as browser:
        for size, scheme in SIZES:
            async with opened(browser, url, "/console/groups/streams", viewport=size, color_scheme=scheme) as page:
                await page.wait_for_selector("#tasks .tall .row:has-text('1_0')")
                assert restores in await page.inner_text("#tasks")
                assert await page.evaluate(lanes) == ["0_0", "0_1", "1_0"]
                assert await violations(page) == []
            async with opened(browser, url, "/console/groups/share", viewport=size, color_scheme=scheme) as page:
                await page.wait_for_selector("#partitions .cell.owner:has-text('client-0 + client-1')")
                assert await page.evaluate(lanes) == ["orders-0"]
                assert await violations(page) == []
