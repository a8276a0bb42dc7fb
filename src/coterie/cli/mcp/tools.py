"""The tools of `coterie mcp`: TOOLS is the table of them. Each reads, by the functions of `coterie groups`, and none can change
anything: `tests/cli/mcp/test_reads.py` holds what this room may call of a client."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import click

from coterie.cli.groups.explainer import Explainer
from coterie.cli.groups.group_description import describe_group, list_groups
from coterie.cli.groups.journal_reading import HISTORY_EVENTS, has_journal, journal_lines
from coterie.cli.groups.predict import predictable_group
from coterie.client import KafkaError
from coterie.client.errors import ConfigError
from coterie.client.lint.lint import CHANGES
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.patterns import EVIDENCE, OBSERVED
from coterie.laboratory.prediction import CostSpread, Deploy, usual_alternatives
from coterie.laboratory.prediction import predict as predicted
from coterie.observer.group_facts import linted
from coterie.text.quantity import total_lag
from coterie.wire.errors import ErrorCode

Document = dict[str, Any]
MOST_TEXT = 300  # characters of one value: a client id may have 32,767
MOST_CHARACTERS = 12_000  # of a whole response: some 4,000 tokens
ABSENT: tuple[Any, ...] = (None, "", [], (), {})
CAUSES_SHOWN, RECENT = 5, 3
LONGEST_S = 120.0
PREDICTED_SEEDS = 3
NO_JOURNAL = "no journal: from what __consumer_offsets still has; causes are inferred"
GROUP = {"type": "string", "minLength": 1, "description": "The id of the consumer group."}
MOST = {
    "type": "integer",
    "minimum": 1,
    "maximum": 100,
    "default": 15,
    "description": "The items of each list; left_off has how many more there are.",
}


def text_of(document: Document, most: int) -> str:
    """The document in JSON: of each list the first ``most`` items, fewer where it would still be too long; ``left_off`` has how
    many more there are."""
    while True:
        text = json.dumps(_cut(document, most), separators=(",", ":"), ensure_ascii=False)
        if len(text) <= MOST_CHARACTERS or not most:
            return text
        most //= 2


def _cut(document: Document, most: int) -> Document:
    brief = {name: _brief(value[:most] if isinstance(value, list) else value) for name, value in document.items()}
    left_off = {
        name: len(value) - most for name, value in document.items() if isinstance(value, list) and len(value) > most
    }
    present = {name: value for name, value in brief.items() if value == [] or value not in ABSENT}
    return present | ({"left_off": left_off} if left_off else {})


def _brief(value: Any) -> Any:
    if isinstance(value, dict):
        brief = {name: _brief(inner) for name, inner in value.items()}
        return {name: inner for name, inner in brief.items() if inner not in ABSENT}
    if isinstance(value, list | tuple):
        return [_brief(inner) for inner in value[:MOST_TEXT]]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str) and len(value) > MOST_TEXT:
        return value[:MOST_TEXT] + "…"
    return value


class ToolSource(NamedTuple):
    """The settings of a cluster's clients by Kafka's names, and the journal of `coterie observe`, where there is one."""

    client: dict[str, str]
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class GroupTool:
    """``arguments``: the JSON Schema of each; a value without ``default`` is required. ``call`` raises KafkaError and
    ClickException."""

    name: str
    title: str
    description: str
    arguments: dict[str, dict[str, Any]]
    call: Callable[..., Awaitable[Document]]

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of all arguments."""
        required = [name for name, schema in self.arguments.items() if "default" not in schema]
        properties = self.arguments | {"most": MOST}
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class ToolResult(NamedTuple):
    """JSON, or one sentence where ``is_error``."""

    text: str
    is_error: bool = False


async def call_tool(source: ToolSource, name: str, arguments: dict[str, Any]) -> ToolResult:
    """The result of a tool, of at most `MOST_CHARACTERS`."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    tool = TOOLS.get(name)
    if tool is None:
        return ToolResult(f"there is no tool {name[:50]!r}; there are {', '.join(TOOLS)}", True)
    wrong = best_match(Draft202012Validator(tool.schema()).iter_errors(arguments))
    if wrong is not None:
        where = "".join(f"{part}: " for part in wrong.path)
        return ToolResult(f"{where}{wrong.message[:200]}", True)
    defaults = {key: schema["default"] for key, schema in tool.arguments.items() if "default" in schema}
    most = arguments.get("most", MOST["default"])
    given = {key: value for key, value in arguments.items() if key != "most"}
    try:
        async with asyncio.timeout(LONGEST_S):
            return ToolResult(text_of(await tool.call(source, **defaults | given), most))
    except (KafkaError, ConfigError, click.ClickException) as error:
        return ToolResult(_sentence(error, given), True)
    except TimeoutError:
        return ToolResult(
            f"the cluster has not responded within {LONGEST_S:.0f} s; ask again, or of another group", True
        )


def _sentence(error: Exception, given: dict[str, Any]) -> str:
    if isinstance(error, KafkaError) and error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return f"there is no group {given.get('group')!r}; the tool groups lists those of the cluster"
    text = error.message if isinstance(error, click.ClickException) else str(error)
    return " ".join(text.split())[:300]


# -- the tools ------------------------------------------------------------------------------------------------------------


async def groups(source: ToolSource, state: str) -> Document:
    """Those furthest behind first."""
    rows, errors = await list_groups(source.client, [state] if state else [])
    rows.sort(key=lambda row: (-(row["lag"] or 0), row["group"]))
    return {"groups": rows, "unread": [str(error) for error in errors] or None}


async def why(source: ToolSource, group: str) -> Document:
    """The group now, and its last events."""
    async with Explainer(group, None, source.client) as explainer:
        document = asdict(await explainer.explain())
    document["partitions"] = sorted(document["partitions"], key=lambda p: -(p["lag"] or 0))
    sentences: Document = _without_phrases(document)
    past = await history(source, group, False)
    return sentences | {"recent_events": past["events"][:RECENT], "events_from": past["from"]}


def _without_phrases(value: Any) -> Any:
    """A model reads the sentence itself."""
    if isinstance(value, dict):
        return {name: _without_phrases(of) for name, of in value.items() if not name.endswith("_phrase")}
    return [_without_phrases(item) for item in value] if isinstance(value, list | tuple) else value


async def history(source: ToolSource, group: str, every_event: bool) -> Document:
    """Newest first, with the number of each cause over all of them."""
    lines, unread = await journal_lines(group, source.client, source.journal)
    origin = source.journal or ("the broker's journal" if await has_journal(source.client) else NO_JOURNAL)
    shown = [line for line in lines if every_event or line.event in HISTORY_EVENTS]
    counts = Counter(cause["kind"] for line in shown for cause in line.causes)
    unowned = [line.unowned_ms for line in lines if line.unowned_ms is not None]
    return {
        "group": group,
        "from": origin,
        "causes": dict(counts.most_common()),
        "unowned_ms": sum(unowned) if unowned else None,
        "events": [_event(line) for line in reversed(shown)],
        "unread": unread or None,
    }


def _event(line: JournalLine) -> Document:
    """A line of the journal, brief: ``evidence`` is how its causes are known, the least sure one."""
    more = len(line.causes) - CAUSES_SHOWN
    evidence = {cause.get("evidence", OBSERVED) for cause in line.causes}
    return {
        "time": datetime.datetime.fromtimestamp(line.time_ms / 1000, datetime.UTC).isoformat(timespec="milliseconds"),
        "event": line.event,
        "generation": line.generation,
        "members": line.members,
        "why": replace(line, causes=line.causes[:CAUSES_SHOWN]).why() + (f"; and {more} more" if more > 0 else ""),
        "clients": sorted({cause["client_id"] for cause in line.causes[:CAUSES_SHOWN] if "client_id" in cause}),
        "evidence": next((word for word in reversed(EVIDENCE) if word in evidence), None),
        "join_ms": line.join_ms,
        "sync_ms": line.sync_ms,
        "moved_count": line.moved_count,
        "unowned_count": line.unowned_count,
        "unowned_ms": line.unowned_ms,
    }


async def lint(source: ToolSource, group: str, change: str) -> Document:
    """What may change, and what blocks it."""
    advices = await linted(source.client, group)
    wanted = CHANGES[change] if change else [text for texts in CHANGES.values() for text in texts]
    return {"group": group, "changes": [asdict(advice) for advice in advices if advice.change in wanted]}


async def lag(source: ToolSource, group: str) -> Document:
    """The partitions furthest behind first, and the lag of each member."""
    described, errors = await describe_group(group, source.client)
    by_owner: dict[str | None, list[Any]] = {}
    for partition in described["partitions"]:
        by_owner.setdefault(partition["owner"], []).append(partition)
    owners = [
        {"owner": owner, "partitions": len(partitions), "lag": total_lag(partitions)}
        for owner, partitions in by_owner.items()
    ]
    return {
        "group": group,
        "state": described["state"],
        "members": len(described["members"]),
        "lag": described["lag"],
        "lag_ms": described["lag_ms"],
        "partitions": sorted(described["partitions"], key=lambda p: -(p["lag"] or 0)),
        "owners": sorted(owners, key=lambda row: -(row["lag"] or 0)),
        "unread": [str(error) for error in errors] or None,
    }


async def predict(source: ToolSource, group: str, pause_s: float, gap_s: float, kill: bool) -> Document:
    """In a thread: the runs take some seconds."""
    known = await predictable_group(group, source.client)
    deploy = Deploy(round(pause_s * 1000), round(gap_s * 1000), "kill" if kill else "leave")
    others = usual_alternatives(known.deployed.setting, deploy, serves_consumer=known.serves_consumer)
    prediction = await asyncio.to_thread(predicted, known.deployed, deploy, others, PREDICTED_SEEDS)
    costs = [
        {
            "setting": cost.setting,
            "change": cost.change or "none: today's settings",
            "rebalances": _spread(cost.rebalances),
            "unowned_s": _spread(cost.unowned_s),
            "longest_unowned_s": _spread(cost.longest_unowned_s),
            "duplicates": _spread(cost.duplicates),
            "moved": _spread(cost.moved),
        }
        for cost in prediction.costs
    ]
    return {
        "group": group,
        "recommendation": prediction.recommendation,
        "members": prediction.members,
        "partitions": prediction.partitions,
        "costs": costs,
        "assumed": list(map(str, known.assumed)),
    }


def _spread(spread: CostSpread) -> list[float]:
    return [round(value, 1) for value in (spread.mean, spread.lowest, spread.highest)]


TOOLS = {
    tool.name: tool
    for tool in (
        GroupTool(
            "groups",
            "List the consumer groups",
            "Every consumer group of the cluster with its state, members and lag (in records, and in ms how long ago the "
            "first record that is not committed was written), the groups furthest behind first.",
            {
                "state": {
                    "type": "string",
                    "default": "",
                    "description": "Only groups in this state, such as Stable or Empty.",
                }
            },
            groups,
        ),
        GroupTool(
            "why",
            "Explain what a group does now",
            "What a group waits for now and what happens then, its members, its partitions furthest behind, and its last "
            "events with their causes. Of another broker than coterie it watches the group for four seconds.",
            {"group": GROUP},
            why,
        ),
        GroupTool(
            "history",
            "Explain the rebalances of a group",
            "The generations of a group, newest first: when, why (which member joined, left, was silent; a deploy; a "
            "member that flaps; added partitions), how long each phase took, how many partitions moved and how long "
            "they had no owner. evidence: whether the cause is observed, inferred by a rule, or unknown.",
            {
                "group": GROUP,
                "every_event": {
                    "type": "boolean",
                    "default": False,
                    "description": "Also the steps between generations.",
                },
            },
            history,
        ),
        GroupTool(
            "lint",
            "Check what hurts a group, and which changes are safe",
            "What will hurt the group as it is (change none): short sessions, polls near their limit, colliding static ids. "
            "And whether it can safely change to cooperative rebalancing, static members or the consumer protocol of KIP-848 "
            "and back, the members that block it, and the next step.",
            {
                "group": GROUP,
                "change": {"type": "string", "enum": ["", *CHANGES], "default": "", "description": "Only this change."},
            },
            lint,
        ),
        GroupTool(
            "predict",
            "Predict what a rolling restart costs a group",
            "A deploy in which the members are restarted one after the other, replayed in virtual time under the group's "
            "settings of today and under others; nothing changes in the cluster. Figures are [mean, lowest, highest]: "
            "unowned_s is for how long a partition has no owner during the whole deploy. Takes some seconds.",
            {
                "group": GROUP,
                "pause_s": {
                    "type": "number",
                    "minimum": 0.1,
                    "maximum": 3600,
                    "default": 8,
                    "description": "From a member's stop until it joins again.",
                },
                "gap_s": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": 3600,
                    "default": 30,
                    "description": "From a member's return to the stop of the next one.",
                },
                "kill": {
                    "type": "boolean",
                    "default": False,
                    "description": "The processes end without closing their consumers.",
                },
            },
            predict,
        ),
        GroupTool(
            "lag",
            "Show how far behind a group is",
            "The lag of a group by partition and by owner, in records and in ms, the furthest behind first. A partition "
            "without an owner is read by nobody; lag_ms of 0 is no lag.",
            {"group": GROUP},
            lag,
        ),
    )
}
