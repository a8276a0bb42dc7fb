"""Every value from outside in every kind of page: names of topics, clients and groups, hosts, reasons and a broker's responses
are text there, and no markup."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from coterie.certify import page as certificate_page
from coterie.certify.page import Block
from coterie.certify.replay import Certificate
from coterie.console import history_page, what_if_page
from coterie.console.page import Markup, element, markup_text, page, table
from coterie.console.report import LeaderMove, Rebalance, Report, render
from coterie.console.svg import Line
from coterie.console.timeline_page import component
from coterie.coordinator.journal.timeline import Spell, Timeline, TimelineMark
from coterie.laboratory.what_if import WhatIfSetting
from coterie.pipeline.history.tables import TABLES
from coterie.pipeline.what_if import MEASURES
from coterie.text.hidden import visible

HTML = frozenset(
    {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "pre", "span", "table", "tr", "th", "td"}
)
TAGS = HTML | {"script", "div", "figure", "figcaption", "svg", "text", "line", "rect", "polyline", "circle"}


def hostile(name: str) -> str:
    return f"<script>{name}</script>&amp;\"'><img onerror=x src=//y>\x1b[2J"


class Read(HTMLParser):
    """The tags, the attributes and the texts of a page, titles of pictures included."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.scripts: list[tuple[str | None, str]] = []  # type and text
        self._script: str | None = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._script = dict(attrs).get("type") if tag == "script" else ""

    def handle_data(self, data: str) -> None:
        if self._script == "":
            self.texts.append(data)
        else:
            self.scripts.append((self._script, data))

    def handle_endtag(self, tag: str) -> None:
        self._script = ""


def check(text: str, names: Sequence[str]) -> None:
    """The page has its own tags alone, and shows each hostile value as it is, control characters as escapes."""
    read = Read(text)
    assert read.tags <= TAGS, read.tags - TAGS
    assert not [name for name in read.attributes if name.startswith("on") or name in ("src", "href")]
    documents = [json.loads(text)["timeline"] for kind, text in read.scripts if kind == "application/json"]
    run = [(kind, text) for kind, text in read.scripts if kind != "application/json"]
    assert run == ([("module", component().code)] if documents else []), "no script but the component"
    shown = "\n".join(read.texts + [text for document in documents for text in texts_in(document)])
    assert [name for name in names if visible(hostile(name)) not in shown] == []


def texts_in(value: Any) -> list[str]:
    """Every text of a document of JSON."""
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in texts_in(item)]


def owned_by(name: str) -> Timeline:
    timeline = Timeline(hostile("timeline of " + name), begin_ms=0, end_ms=1000)
    timeline.owned.append(Spell(timeline.lane((hostile("lane of " + name), 0)), timeline.owner(hostile(name)), 0))
    timeline.moments.append(TimelineMark(500, hostile("moment of " + name)))
    return timeline


def demo_report() -> tuple[str, list[str]]:
    report = Report(hostile("title"), hostile("summary"), 1.0, table_title=hostile("table title"))
    report.checks = [(hostile("check"), True, hostile("detail")), (hostile("other check"), False, "")]
    report.owners, report.leaders = owned_by("member"), owned_by("broker")
    report.rebalances = [Rebalance(1, 0, 1, 1, 1, 1, hostile("why"))]
    report.leader_moves = [LeaderMove(0.5, 0, True, 1, 2, 0.1)]
    report.events = [(0.5, hostile("event"))]
    report.lags = [Line(hostile("group"), [(0, 1.0), (1, 2.0)])]
    report.table_unit, report.table = hostile("unit"), [(hostile("bar"), 1.0)]
    names = [
        "title",
        "summary",
        "table title",
        "check",
        "detail",
        "other check",
        "member",
        "broker",
        *(f"{part} of {name}" for part in ("timeline", "lane", "moment") for name in ("member", "broker")),
        "why",
        "event",
        "group",
        "bar",
    ]
    return render(report), names


def rows_of(folder: Path, _: str | None) -> list[dict[str, Any]]:
    """A row of that table of a history: every text is hostile, every number 1. No row of the facts that are no table."""
    if folder.name not in TABLES or folder.name == "group_log":
        return []
    columns = (column.split()[:2] for column in TABLES[folder.name].schema.split(", "))
    return [{name: hostile(name) if kind == "string" else 1 for name, kind in columns}]


def history(monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[str]]:
    monkeypatch.setattr(history_page, "rows_of", rows_of)
    folder, group = Path("history"), hostile("group")
    text = page(group, history_page.summary(folder, group), history_page.sections(folder, group))
    return text, ["group", "topic", "client_id", "client_host", "cause", "why", "source"]


def what_if() -> tuple[str, list[str]]:
    measures = {f"{name}{end}": 1 for name in MEASURES for end in ("", "_low", "_high")}
    rows = [
        {
            **asdict(WhatIfSetting()),
            **measures,
            "assignor": hostile(f"assignor {n}"),
            "removal": hostile(f"removal {n}"),
        }
        | {"seeds": 1, "rebalances_avoided": 0}
        for n in range(2)
    ]
    return page("What if", "", what_if_page.sections(rows)), ["assignor 0", "removal 0", "assignor 1", "removal 1"]


def certificate(monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[str]]:
    block = Block(
        hostile("heading"), 2, hostile("text"), (hostile("header"),), ((hostile("cell"),),), (hostile("request"),)
    )
    monkeypatch.setattr(certificate_page, "blocks", lambda _: [block])
    text = certificate_page.as_html(Certificate(hostile("address"), hostile("version")))
    return text, ["heading", "text", "header", "cell", "request", "address", "version"]


def test_the_report_of_the_demo() -> None:
    check(*demo_report())


def test_the_page_of_a_what_if() -> None:
    check(*what_if())


@pytest.mark.parametrize("make", [history, certificate])
def test_a_page_of_foreign_data(
    make: Callable[[pytest.MonkeyPatch], tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(*make(monkeypatch))


def test_text_is_escaped_where_it_joins_markup() -> None:
    inner = element("span", "<b>", css='x" onclick="y')
    assert inner == '<span class="x&quot; onclick=&quot;y">&lt;b&gt;</span>'
    assert element("p", inner, "<i>", 1) == f"<p>{inner}&lt;i&gt;1</p>"
    assert markup_text(markup_text("<")) == "&lt;"
    assert table(["<"], [["<", inner]]).count("<span") == 1
    # What is made of markup by str's own methods is plain text again, and is escaped.
    assert markup_text(Markup("<p>") + "<script>") == "&lt;p&gt;&lt;script&gt;"


def test_an_unescaped_value_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.console.page.escape", str)
    for text, names in (demo_report(), what_if(), history(monkeypatch), certificate(monkeypatch)):
        with pytest.raises(AssertionError):
            check(text, names)
