"""Pages as people see them: opened in headless Chromium, whose view of the page is looked at, not its source."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from coterie.console.growth_chart import Growth, growth_chart
from coterie.console.page import Section, page, write_pictures
from coterie.console.svg import Line, Spread, bars, colours, line_chart, small_multiples
from coterie_conformance.console.browser import chromium, opened
from tests.web.in_browser import in_a_browser

# What the page looks like to the browser: texts outside of their picture, overlapping texts, requests, errors.
PROBE = """<script>
addEventListener('load', () => {
  const seen = {outside: [], overlapping: [], touching: [], requests: performance.getEntriesByType('resource').length};
  const pictures = [...document.querySelectorAll('svg')].filter((svg) => svg.checkVisibility());
  seen.shown = pictures.length;
  seen.charts = pictures.slice(0, 2).map((svg) => [svg.getBoundingClientRect().right,
    Math.min(...[...svg.querySelectorAll('text')].map((text) => text.getBoundingClientRect().height))]);
  for (const svg of pictures) {
    const frame = svg.getBoundingClientRect(), boxes = [];
    for (const part of svg.querySelectorAll('text, rect:not(.paper), line, polyline, path')) {
      const box = part.getBoundingClientRect();
      if (Math.min(box.left - frame.left, frame.right - box.right, box.top - frame.top, frame.bottom - box.bottom) < 6)
        seen.touching.push(part.outerHTML);
    }
    for (const text of svg.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1)
        seen.outside.push(text.textContent);
      for (const [other, name] of boxes)
        if (box.left < other.right - 2 && other.left < box.right - 2 &&
            box.top < other.bottom - 3 && other.top < box.bottom - 3)
          seen.overlapping.push(name + ' / ' + text.textContent);
      boxes.push([box, text.textContent]);
    }
  }
  seen.wide = document.documentElement.scrollWidth > innerWidth;
  document.title = 'SEEN ' + JSON.stringify(seen);
});
</script>"""


def sections() -> list[Section]:
    lag = line_chart([Line("flights", [(0, 0), (5, 900), (15, 0)])], 15.0, "lag", "records")
    causes = bars([("a static member returned", 3.0), ("a member joined", 12.0)], "causes", "rebalances")
    spreads = [
        Spread(f"dynamic, session {n} s", a, n * 10.0, n * 8.0, n * 12.0) for a in ("range", "sticky") for n in (6, 45)
    ]
    spreads += [Spread(f"row {n}", f"a group with a long name, {n}", 5.0, 4.0, 6.0) for n in range(6)]
    multiples = small_multiples([(f"Measure {n}", "seconds", spreads) for n in range(5)], "grid")
    sizes = (3, 10, 30, 100, 300, 1_000, 3_000, 10_000)
    curves = [Growth(f"protocol {n}", [(size, size * n, size, size * 3) for size in sizes]) for n in (1, 2, 3)]
    growth = growth_chart(curves, "growth", "messages in the busiest second", sizes)
    made = {"lag": lag, "causes": causes, "grid": multiples, "growth": growth}
    return [Section(name.title(), "How to read it.", svg, name) for name, svg in made.items()]


@in_a_browser
@pytest.mark.parametrize("width", [360, 768, 1040])
def test_a_page_in_a_browser(width: int, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    # Without the policy, by which the page would not run the probe.
    text = re.sub("<meta http-equiv[^>]*>", "", page("A & B", "A summary.", sections()))
    path.write_text(text.replace("</body>", PROBE + "</body>"))

    async def go() -> dict[str, Any]:
        size = {"width": width, "height": 800}
        async with chromium() as browser, opened(browser, "file://", str(path), viewport=size) as shown:
            seen: dict[str, Any] = json.loads((await shown.title()).removeprefix("SEEN "))
            return seen

    seen = asyncio.run(go())
    assert seen.pop("shown") == 4, "each picture once"
    charts = seen.pop("charts")
    assert len(charts) == 2
    assert all(right <= width and letters > 10 for right, letters in charts), "to be read without scrolling"
    nothing = {"outside": [], "overlapping": [], "touching": [], "wide": False}
    assert seen == nothing | {"requests": 0}, "the page must need nothing from elsewhere"


def test_pictures_stand_on_their_own(tmp_path: Path) -> None:
    written = write_pictures(sections(), tmp_path)
    assert {p.name for p in written} == {
        f"{n}.{kind}" for n in ("lag", "causes", "grid", "growth") for kind in ("svg", "png")
    }
    for path in written:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
            assert path.stat().st_size > 5_000
        else:
            text = path.read_text()
            assert "<style>" in text
            box = re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', text)
            assert box is not None
            x, y, width, height = box.groups()
            paper = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" class="paper"/>'
            assert paper in text, "black text on a dark page cannot be read"


@in_a_browser
@pytest.mark.parametrize(("theme", "paper", "text"), [("light", 255, 26), ("dark", 22, 228)])
def test_a_picture_on_its_own_follows_the_readers_theme(theme: str, paper: int, text: int, tmp_path: Path) -> None:
    write_pictures(sections(), tmp_path)

    async def go() -> list[str]:
        path = str(tmp_path / "grid.svg")
        async with chromium() as browser, opened(browser, "file://", path, color_scheme=theme) as shown:
            fill = "(name) => getComputedStyle(document.querySelector(name)).fill"
            return [await shown.evaluate(fill, name) for name in (".paper", "text.small")]

    reds = [int(colour.removeprefix("rgb(").split(",")[0]) for colour in asyncio.run(go())]
    assert reds == [paper, text]


def test_colours_that_colour_blind_people_tell_apart() -> None:
    """Simulated for the three kinds (Machado and others, 2009): of the first five colours no two come near each other."""
    kinds = {
        "protan": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
        "deutan": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
        "tritan": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
    }
    for kind, matrix in kinds.items():
        seen = []
        for colour in colours(["a", "b", "c", "d", "e"]).values():
            rgb = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
            linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
            seen.append([sum(m * c for m, c in zip(row, linear, strict=True)) for row in matrix])
        for number, one in enumerate(seen):
            for other in seen[number + 1 :]:
                distance = sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5
                assert distance > 0.06, (kind, one, other)
