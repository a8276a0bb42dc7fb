"""A page that needs no network: headings, notes, pictures and tables in one HTML file; its pictures also as SVG and PNG."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from coterie.console.terminal import visible

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 1000px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; margin-bottom: .2em; }
h2 { font-size: 1.15em; margin-top: 2em; }
p.note { color: #555; margin-top: .2em; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: .3em .6em; border-bottom: 1px solid #ddd; vertical-align: top; }
td { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13px; background: #f4f4f4; padding: .5em .8em; }
th.n, td.n { text-align: right; white-space: nowrap; }
.right { color: #00694d; font-weight: 600; }
.wrong { color: #b00020; font-weight: 600; }
svg { width: 100%; height: auto; }
"""

# Inside each picture, so that it looks the same on its own.
SVG_STYLE = """
text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #1a1a1a; }
.small { font-size: 11px; fill: #333; }
.bold { font-weight: 600; }
.axis { stroke: #666; }
.grid { stroke: #ddd; }
.mark { stroke: #1a1a1a; stroke-dasharray: 3 3; }
.spread { stroke: #1a1a1a; stroke-width: 1.5; }
.empty { fill: #f4f4f4; }
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, a sentence on how to read what follows, and that: SVG or a table's HTML. ``name``: the picture's file."""

    heading: str
    note: str
    body: str
    name: str = ""


def markup_text(text: object) -> str:
    """Any value's text for HTML and SVG: markup escaped, and control characters, which XML forbids, shown as escapes."""
    return escape(visible(str(text), breaks=True))


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], numbers: frozenset[int] = frozenset()) -> str:
    """``numbers``: the columns that are set to the right."""

    def cells(row: Sequence[object], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if column in numbers else ''}>{markup_text(cell)}</{tag}>"
            for column, cell in enumerate(row)
        )

    head = f"<tr>{cells(headers, 'th')}</tr>"
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table>{head}{body}</table>"


def page(title: str, summary: str, sections: Sequence[Section]) -> str:
    """The whole page."""
    parts = [f"<h1>{markup_text(title)}</h1><p class='note'>{markup_text(summary)}</p>"]
    for s in sections:
        note = f"<p class='note'>{markup_text(s.note)}</p>" if s.note else ""
        parts.append(f"<h2>{markup_text(s.heading)}</h2>{note}{s.body}")
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{markup_text(title)}</title><style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


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
    box = re.search(r'viewBox="0 0 (\d+)', svg)
    width = 2 * int(box[1]) if box else 1920
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, width=width, background="#ffffff"))
