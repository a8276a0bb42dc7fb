"""What a page requests of the laboratory, in JSON texts both ways: start, act, go to a time, step, and the hash of the trace;
and what a reader's own file would have cost under other settings.

A page in a browser calls these functions in a worker; the desk's Python calls the same ones in the tests.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from coterie.configuration.setting import SettingError
from coterie.laboratory.playground.dropped import DroppedGroup, UnfitFile, costs, dropped_groups
from coterie.laboratory.playground.lessons import LESSONS
from coterie.laboratory.playground.playground import ACTIONS, Playground, UnfitAction
from coterie.laboratory.playground.rules import RULES
from coterie.laboratory.playground.settings import SCRIPTED, SETTINGS, protocol_defaults, read_setting, setting_values

_LESSONS = {lesson.name: lesson for lesson in LESSONS}
EVENTS_SHOWN = 400  # of a view: the last ones


def texts() -> dict[str, dict[str, str]]:
    """Name -> language -> text, of texts.json."""
    from importlib.resources import files  # the page does without it, and starts sooner

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
            "actions": sorted(ACTIONS),
            "lessons": [asdict(lesson) | {"settings": dict(lesson.settings)} for lesson in LESSONS],
            "rules": {name: rule._asdict() for name, rule in RULES.items()},
        }
    )


class PlaygroundSession:
    """One page's. Each method returns a JSON object; where something does not fit it is ``{"error": SENTENCE}``."""

    def __init__(self) -> None:
        self._playground = Playground(read_setting({}))
        self._seen = 0
        self._dropped: list[DroppedGroup] = []

    def start(self, request: str) -> str:
        """A new group: ``{"settings": {NAME: VALUE}}``, with what happens to it in ``{"lesson": NAME}`` alone, or in
        ``"dropped": N``, the group of the dropped file."""
        wanted = json.loads(request)
        lesson = _LESSONS.get(wanted.get("lesson", ""))
        try:
            if lesson is not None:
                self._playground = Playground(read_setting(lesson.settings), lesson.actions)
            else:
                actions = self._dropped[wanted["dropped"]].actions if "dropped" in wanted else ()
                self._playground = Playground(read_setting(wanted["settings"]), actions)
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

    def drop(self, text: str) -> str:
        """The groups of a file's text, in the order of their numbers."""
        try:
            self._dropped = dropped_groups(text)
        except UnfitFile as error:
            return json.dumps({"error": str(error)})
        groups = [
            {"group": g.group, "members": g.members, "changes": len(g.actions), "partitions": g.partitions}
            for g in self._dropped
        ]
        return json.dumps({"groups": groups})

    def costs(self, request: str) -> str:
        """What a group of the dropped file costs: the measures of ``{"settings": …, "dropped": N}``."""
        wanted = json.loads(request)
        try:
            setting = read_setting(wanted["settings"])
        except SettingError as error:
            return json.dumps({"error": str(error)})
        return json.dumps(
            asdict(costs(self._dropped[wanted["dropped"]], setting.study, setting.partitions, setting.seed))
        )

    def view(self) -> str:
        """What is to be drawn. ``events``: those since the last view, the last `EVENTS_SHOWN` of them; ``count``: of all."""
        playground, seen = self._playground, self._seen
        events = playground.recording.events
        self._seen = len(events)
        view: dict[str, Any] = {
            "now_ms": playground.now_ms,
            "steps": playground.steps,
            "settings": setting_values(playground.setting),
            "protocol": playground.setting.protocol,
            "is_scripted": playground.setting.study.protocol in SCRIPTED,
            "partitions": playground.course.load.partitions,
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
