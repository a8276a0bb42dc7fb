"""What a page asks of the laboratory, in JSON texts both ways: start, act, go to a time, step, and the hash of the trace.

A page in a browser calls these functions in a worker; the desk's Python calls the same ones in the tests.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from coterie.configuration.setting import SettingError
from coterie.laboratory.playground.playground import ACTIONS, Playground, UnfitAction
from coterie.laboratory.playground.rules import RULES
from coterie.laboratory.playground.settings import PROTOCOLS, SCRIPTED, SETTINGS, protocol_defaults, read_setting

EVENTS_SHOWN = 400  # of a view: the last ones


def texts() -> dict[str, dict[str, str]]:
    """Name -> language -> text, of texts.json."""
    document: dict[str, dict[str, str]] = json.loads(
        (files("coterie.laboratory.playground") / "texts.json").read_text("utf-8")
    )
    return document


def description() -> str:
    """What there is to choose: settings with their limits, protocols with their time-outs, actions, rules."""
    settings = [
        {"name": name, "default": setting.default, "documentation": setting.documentation}
        for name, setting in SETTINGS.items()
    ]
    return json.dumps(
        {
            "settings": settings,
            "protocols": protocol_defaults(),
            "scripted": [name for name, study in PROTOCOLS.items() if study.protocol in SCRIPTED],
            "actions": sorted(ACTIONS),
            "rules": {name: rule._asdict() for name, rule in RULES.items()},
        }
    )


class PlaygroundSession:
    """One page's. Each method returns a JSON object; where something does not fit it is ``{"error": SENTENCE}``."""

    def __init__(self) -> None:
        self._playground = Playground(read_setting({}))
        self._seen = 0

    def start(self, request: str) -> str:
        """``{"settings": {NAME: VALUE}}``: a new group."""
        try:
            self._playground = Playground(read_setting(json.loads(request)["settings"]))
        except (SettingError, UnfitAction) as error:
            return json.dumps({"error": str(error)})
        self._seen = 0
        return self.view()

    def act(self, request: str) -> str:
        """``{"kind": …, "member": …, "ms": …, "partitions": …}``: an action, now."""
        wanted = json.loads(request)
        try:
            self._playground.act(
                str(wanted["kind"]),
                str(wanted.get("member", "")),
                int(wanted.get("ms", 0)),
                int(wanted.get("partitions", 0)),
            )
        except UnfitAction as error:
            return json.dumps({"error": str(error)})
        return self.view()

    def go(self, time_ms: int) -> str:
        """To that time (ms since the beginning), forward or back."""
        restarts = self._playground.restarts
        self._playground.run_until(int(time_ms))
        if self._playground.restarts != restarts:
            self._seen = 0
        return self.view()

    def step(self) -> str:
        """To the next time at which an event is recorded."""
        recorded = len(self._playground.recording.events)
        for _ in range(10_000):
            self._playground.step()
            if len(self._playground.recording.events) > recorded:
                break
        return self.view()

    def view(self) -> str:
        """What is to be drawn. ``events``: those since the last view, the last `EVENTS_SHOWN` of them; ``count``: of all."""
        playground, seen = self._playground, self._seen
        events = playground.recording.events
        self._seen = len(events)
        view: dict[str, Any] = {
            "now_ms": playground.now_ms,
            "steps": playground.steps,
            "first": max(seen, len(events) - EVENTS_SHOWN),
            "is_new": seen == 0,
            "events": [event._asdict() for event in events[max(seen, len(events) - EVENTS_SHOWN) :]],
            "count": len(events),
            "members": playground.members(),
            "explanation": playground.explanation(),
            "costs": playground.costs(),
            "timeline": playground.timeline(),
        }
        return json.dumps(view)

    def trace_hash(self) -> str:
        """Of all events so far."""
        return self._playground.recording.trace_hash()
