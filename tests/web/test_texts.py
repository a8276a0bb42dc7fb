"""The texts of the pages: one file, every language, and each is used."""

from __future__ import annotations

import json
import re
from pathlib import Path

import coterie.web
from coterie.coordinator.journal.line import CAUSES, EVENTS
from coterie.observer.machine.rules import RULES
from coterie.proxy.observed.classic_group import LEFT, NAMED, SILENT
from coterie.text.phrase import ENGLISH
from coterie.web.live_rows import MARKS
from coterie.web.pages import LANGUAGES, texts

ROOM = Path(coterie.web.__file__).parent
TEXTS = json.loads((ROOM / "texts.json").read_text("utf-8"))


def test_every_text_is_there_in_every_language_with_the_same_values() -> None:
    phrases = {f"phrase.{name}": re.sub(r"\{(\w+):[^}]+\}", r"{\1}", text) for name, text in ENGLISH.items()}
    assert {name for name, of_languages in TEXTS.items() if "en" not in of_languages} == phrases.keys()
    for name, written in TEXTS.items():
        of_languages = {"en": phrases[name], **written} if name in phrases else written
        assert of_languages.keys() == LANGUAGES.keys(), name
        values = {language: sorted(re.findall(r"\{\w+\}", text)) for language, text in of_languages.items()}
        assert len({tuple(v) for v in values.values()}) == 1, (name, values)
        assert all(of_languages.values()), name


def test_what_pages_and_scripts_name_is_a_text_and_each_text_is_named() -> None:
    sources = [file.read_text("utf-8") for folder in ("templates", "static") for file in (ROOM / folder).iterdir()]
    source = "\n".join(sources)
    named = set(re.findall(r't\["([\w.]+)"\]', source)) | set(re.findall(r"t\['([\w.]+)'\]", source))
    named |= set(re.findall(r'\btext\(\s*"([\w.]+)"', source))
    missing = {name for name in named if name not in TEXTS}
    assert not missing
    prefixes = set(re.findall(r'["`](\w+\.)(?:"\s*~|\$\{)', source))
    quoted = set(re.findall(r'"([\w.]+)"', source))
    unused = {
        name
        for name in TEXTS
        if name not in named | quoted
        and not any(name.startswith(prefix) for prefix in prefixes)
        and not name.startswith("timeline.")
    }
    assert not unused
    assert {f"mark.{mark}" for mark in MARKS} == {name for name in texts("en") if name.startswith("mark.")}


def test_every_cause_of_the_journal_has_its_text() -> None:
    prefix = "timeline.cause."
    shown = {name.removeprefix(prefix): text for name, text in texts("en").items() if name.startswith(prefix)}
    assert shown == CAUSES


def test_every_rule_that_infers_a_cause_has_its_text() -> None:
    rules = {*RULES, *(rule for _, rule in (SILENT, LEFT, NAMED))}
    shown = {name: text for name, text in texts("en").items() if name.startswith("timeline.rule.")}
    assert shown == {f"timeline.rule.{rule}": rule.replace("_", " ") for rule in rules}


def test_every_event_of_the_journal_has_its_text() -> None:
    shown = {name: text for name, text in texts("en").items() if name.startswith("event.")}
    assert shown == {f"event.{event}": event.replace("_", " ") for event in EVENTS}
