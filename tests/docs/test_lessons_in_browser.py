"""The twelve lessons of the playground in headless Chromium, in English and Chinese.

Each is started by its button, plays to its end by itself, goes back and one event on: in the reader's words, with the trace of
the desk, without a barrier. Errors and warnings of the console are complaints of `opened`.
"""

from __future__ import annotations

import json

import pytest
from playwright.async_api import Page

from coterie.laboratory.playground.lessons import LESSONS, Lesson
from coterie.laboratory.playground.session import PlaygroundSession, texts
from coterie.laboratory.playground.settings import SETTINGS
from coterie_conformance.console.browser import violations
from tests.docs.test_playground_in_browser import called, playground, site, until
from tests.web.in_browser import in_a_browser

__all__ = ["site"]
pytestmark = [pytest.mark.slow, in_a_browser]

FASTEST = "speed => { speed.value = speed.max; speed.dispatchEvent(new Event('input')) }"
ENDED = "end_ms => !window.playground.isPlaying && window.playground.view.now_ms === end_ms"


def at_the_desk(lesson: Lesson) -> tuple[str, int]:
    """The trace's hash at the end, and how many members there are."""
    session = PlaygroundSession()
    session.start(json.dumps({"lesson": lesson.name}))
    view = json.loads(session.go(lesson.end_ms))
    return session.trace_hash(), len(view["members"])


async def walk(page: Page, number: int, words: dict[str, str]) -> None:
    lesson = LESSONS[number]
    await page.select_option("#lesson", str(number))
    assert (
        await page.locator("#lesson option:checked").inner_text()
        == f"{number + 1}. {words[f'lesson.{lesson.name}.title']}"
    )
    assert (await page.locator("#lesson-text p").all_inner_texts()) == words[f"lesson.{lesson.name}.text"].split("\n")
    await page.get_by_role("button", name=words["lesson.start"], exact=True).click()
    await until(page, "() => window.playground.isPlaying")
    await page.locator("#speed").evaluate(FASTEST)
    await until(page, ENDED, lesson.end_ms)
    trace, members = at_the_desk(lesson)
    assert await called(page, "trace_hash") == trace
    assert await page.locator("#members li").count() == members
    assert await page.locator("#events details").count() > 0
    shown = set(await page.locator("main").evaluate("main => main.innerText.split('\\n')"))
    assert not shown & (words.keys() - SETTINGS.keys()), "a text without words"
    await page.get_by_role("button", name=words["back"], exact=True).click()
    await until(page, "end_ms => window.playground.view.now_ms === end_ms - 10000", lesson.end_ms)
    await page.get_by_role("button", name=words["step"], exact=True).click()
    await until(page, "end_ms => window.playground.view.now_ms > end_ms - 10000", lesson.end_ms)
    assert not await violations(page)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("first", range(0, len(LESSONS), 2))
async def test_each_lesson_is_walked(first: int, language: str, site: str) -> None:
    words = {name: of[language] for name, of in texts().items()}
    async with playground(site, f"/?language={language}") as page:
        for number in (first, first + 1):
            await walk(page, number, words)
