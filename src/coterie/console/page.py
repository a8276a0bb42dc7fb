"""A page that needs no network: headings, notes, pictures and tables in one HTML file; its pictures also as SVG and PNG."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from coterie.text.hidden import visible

WIDTH, PHONE_WIDTH = 960, 340  # of a picture, in the units of its view box
STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --faint: #555; --line: #ddd; --empty: #f4f4f4;
  --right: #00694d; --wrong: #b00020; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e4e4; --paper: #16181b; --faint: #a8a8a8; --line: #3a3d42;
  --empty: #26292e; --right: #58c9a3; --wrong: #ff8a94; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1000px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; margin-bottom: .2em; }
h2 { font-size: 1.15em; margin-top: 2em; }
p.note, figcaption { color: var(--faint); margin-top: .2em; }
figure { margin: 1em 0; }
figcaption { font-size: 13px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: .3em .6em; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: anywhere; }
td:last-child:not(.n) { min-width: 13em; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13px; background: var(--empty); padding: .5em .8em; }
th.n, td.n { text-align: right; white-space: nowrap; }
.right { color: var(--right); font-weight: 600; }
.wrong { color: var(--wrong); font-weight: 600; }
.right, .wrong { white-space: nowrap; }
body:has(> .timeline) { max-width: 1500px; }
figure { max-width: 1000px; }
p { max-width: 62em; }
figure svg { display: block; width: 100%; min-width: 820px; height: auto; }
figure .phone { display: none; max-width: 480px; }
figure .phone svg, figure .phone + .wide svg { min-width: 0; }
@media (max-width: 800px) { figure .phone { display: block; } figure .phone + .wide { display: none; }
  td:last-child:not(.n) { min-width: 24em; } }
"""

# Inside each picture, which so follows the reader's theme in a page and on its own. The darkest of the palette are lighter in
# the dark, as in timeline.css.
SVG_STYLE = """
text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #1a1a1a; }
.small { font-size: 12px; }
.bold { font-weight: 600; }
.axis { stroke: #555; }
.grid { stroke: #ddd; }
.spread { stroke: #1a1a1a; stroke-width: 1.5; }
.unowned { fill: #e6e6e6; }
.paper { fill: #fff; }
@media (prefers-color-scheme: dark) {
text { fill: #e4e4e4; }
.axis { stroke: #a8a8a8; }
.grid { stroke: #3a3d42; }
.spread { stroke: #e4e4e4; }
.unowned { fill: #3a3d42; }
.paper { fill: #16181b; }
[fill="#882255"] { fill: #c75a92; }
[fill="#661100"] { fill: #b8604c; }
[stroke="#882255"] { stroke: #c75a92; }
[stroke="#661100"] { stroke: #b8604c; }
}
"""


class Markup(str):
    """HTML or SVG. Any other text is escaped where it joins a `Markup`: by `element`, or by `markup_text`."""

    __slots__ = ()


class Chart(Markup):
    """A picture as SVG, and ``phone``, the same for a window of a phone's width: reduced to it, its texts could not be read."""

    phone: Markup

    @classmethod
    def of(cls, draw: Callable[[int], Markup]) -> Chart:
        """``draw``: the picture in so many pixels of width."""
        chart = cls(draw(WIDTH))
        chart.phone = draw(PHONE_WIDTH)
        return chart


@dataclass(frozen=True, slots=True)
class Script:
    """A component that is drawn in the browser: a module of JavaScript, and the style of its elements."""

    code: str
    style: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, a sentence on how to read what follows, and that: a picture or HTML. ``name``: the picture's file; ``script``:
    what draws the body."""

    heading: str
    note: str
    body: Markup
    name: str = ""
    script: Script | None = None


def markup_text(value: object) -> Markup:
    """Any value's text for HTML and SVG: markup escaped, and control characters, which XML forbids, shown as escapes. What is
    `Markup` stays as it is."""
    return value if isinstance(value, Markup) else Markup(escape(visible(str(value), breaks=True)))


def element(tag: str, *content: object, css: str = "") -> Markup:
    """An element of HTML with that class; every part of its content is escaped that is no `Markup`."""
    attribute = f' class="{markup_text(css)}"' if css else ""
    return Markup(f"<{tag}{attribute}>{''.join(map(markup_text, content))}</{tag}>")


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], numbers: frozenset[int] = frozenset()) -> Markup:
    """A table of texts, numbers or `Markup`. ``numbers``: the columns that are set to the right. Without headers no head."""

    def line(row: Sequence[object], tag: str) -> Markup:
        return element("tr", *(element(tag, cell, css="n" if n in numbers else "") for n, cell in enumerate(row)))

    head = [line(headers, "th")] if headers else []
    return element("table", *head, *(line(row, "td") for row in rows))


def page(title: str, summary: str, sections: Sequence[Section]) -> Markup:
    """The whole page."""
    parts = [element("h1", title), element("p", summary, css="note")]
    for s in sections:
        parts += [element("h2", s.heading), *([element("p", s.note, css="note")] if s.note else []), _framed(s.body)]
    scripts = list(dict.fromkeys(s.script for s in sections if s.script is not None))
    styles = [STYLE, *(script.style for script in scripts)]
    head = Markup(
        f'<meta charset="utf-8">{_policy([script.code for script in scripts], [*styles, SVG_STYLE])}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{element('title', title)}{''.join(f'<style>{style}</style>' for style in styles)}"
    )
    parts += [Markup(f'<script type="module">{script.code}</script>') for script in scripts]
    return Markup(f'<!doctype html><html lang="en">{element("head", head)}{element("body", *parts)}</html>\n')


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """The page loads nothing, and runs no script but these, whatever stands in a name."""
    allowed = " ".join(["script-src", *map(_source, scripts)]) if scripts else "script-src 'none'"
    policy = f"default-src 'none'; {allowed}; {' '.join(['style-src', *map(_source, styles)])}; base-uri 'none'"
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'


def _source(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _framed(body: Markup) -> Markup:
    """What may be wider than a phone, so that it alone is scrolled; a picture with its title as the caption."""
    if body.startswith('<div class="timeline"'):
        return body
    title = re.search(r"<title>(.*?)</title>", body)
    if not body.startswith("<svg") or title is None:
        return element("div", body, css="wide")
    caption = Markup(title[1][:1].upper() + title[1][1:])
    phone = [element("div", body.phone, css="phone")] if isinstance(body, Chart) else []
    return element("figure", *phone, element("div", body, css="wide"), element("figcaption", caption))


def write_pictures(sections: Sequence[Section], folder: Path) -> list[Path]:
    """Each named picture as SVG, and as PNG where the package resvg-py is installed (the extra `png`)."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for section in sections:
        if not section.name or not section.body.startswith("<svg"):
            continue
        path = folder / f"{section.name}.svg"
        path.write_text(section.body, encoding="utf-8")
        written.append(path)
        png = as_png(section.body)
        if png is not None:
            path.with_suffix(".png").write_bytes(png)
            written.append(path.with_suffix(".png"))
    return written


def as_png(svg: str) -> bytes | None:
    """Twice the size, on white; None without resvg-py."""
    try:
        import resvg_py
    except ImportError:
        return None
    box = re.search(r'viewBox="\S+ \S+ (\d+)', svg)
    width = 2 * int(box[1]) if box else 1920
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, width=width, background="#ffffff"))
