"""A group's timeline on a page that needs no network: the component of `web/static`, its data and its texts, all inline."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files

from coterie.console.page import Markup, Script, Section, element, table
from coterie.coordinator.journal.timeline import Timeline
from coterie.text.hidden import visible

MODULES = (
    "timeline_model",
    "timeline_drawing",
    "timeline_causes",
    "timeline_words",
    "timeline_colours",
    "timeline_input",
    "timeline",
    "timeline_still",
)  # what imports comes later
IMPORT, EXPORT = re.compile(r"^import .* from .*;\n", re.MULTILINE), re.compile(r"^export ", re.MULTILINE)
TIMELINE_NOTE = (
    "The number of a rebalance is its generation. Hatched: the partition is unowned; dark grey: its owner was dead, and the "
    "coordinator had not noticed."
)
LANES_IN_TABLE, OWNERS_IN_TABLE = 60, 12


@cache
def component() -> Script:
    """The component as one module, and its style."""
    static = files("coterie.web") / "static"
    modules = [(static / f"{name}.js").read_text("utf-8") for name in MODULES]
    code = "".join(EXPORT.sub("", IMPORT.sub("", module)) for module in modules)
    return Script(code, (static / "timeline.css").read_text("utf-8"))


@cache
def texts() -> dict[str, dict[str, str]]:
    """Language -> name -> text, of those whose names begin with ``timeline.``"""
    every = json.loads((files("coterie.web") / "texts.json").read_text("utf-8"))
    own = {name: of_languages for name, of_languages in every.items() if name.startswith("timeline.")}
    languages = next(iter(own.values()))
    return {language: {name: of_languages[language] for name, of_languages in own.items()} for language in languages}


def timeline_section(heading: str, note: str, timeline: Timeline) -> Section:
    """The component's element, with a table for a reader without JavaScript."""
    document = {"timeline": timeline.document(visible), "texts": texts()}
    data = Markup(f'<script type="application/json">{script_json(document)}</script>')
    body = element("div", data, element("div", _owners_table(timeline), css="wide"), css="timeline")
    return Section(heading, note, body, script=component())


def script_json(value: object) -> Markup:
    """JSON that can stand within a script element: no text in it ends the element."""
    text = json.dumps(value, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _owners_table(timeline: Timeline) -> Markup:
    """Of each partition its last owners, with their times in seconds since the beginning."""
    begin_ms, end_ms = timeline.begin_ms or 0, timeline.end_ms or 0
    spells: dict[int, list[str]] = {}
    for spell in timeline.owned:
        until_ms = end_ms if spell.until_ms is None else spell.until_ms
        times = f"{(spell.from_ms - begin_ms) / 1000:,.1f} to {(until_ms - begin_ms) / 1000:,.1f} s"
        spells.setdefault(spell.lane, []).append(f"{timeline.owners[spell.owner]} ({times})")
    lanes = sorted(range(len(timeline.lanes)), key=timeline.lanes.__getitem__)[:LANES_IN_TABLE]
    rows = [
        (f"{topic}-{number}", "; ".join(spells.get(lane, [])[-OWNERS_IN_TABLE:]))
        for lane in lanes
        for topic, number in [timeline.lanes[lane]]
    ]
    return table(["partition", "owners, in seconds since the beginning"], rows)
