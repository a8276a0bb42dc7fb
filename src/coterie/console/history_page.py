"""A group's history as a page: who owned what, why it rebalanced, its lag, its moves and stalls."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.console.page import Section, table
from coterie.console.svg import Line, bars, line_chart
from coterie.console.tables import ShortIds
from coterie.console.timeline_page import TIMELINE_NOTE, timeline_section
from coterie.coordinator.journal.line import CAUSE_TITLES, JournalLine
from coterie.coordinator.journal.timeline import Band, BandPhase, Spell, Timeline, owner_name
from coterie.machines.ownership import UnownedSpell, unowned_text
from coterie.observer.logs.server_log import rebalances as server_log_events
from coterie.pipeline.history.reading.decoding import CONSUMER_GROUP
from coterie.pipeline.history.rebalances import journal_log_events, unowned_spells
from coterie.pipeline.tables.files import rows_of
from coterie.text.quantity import quantity

REBALANCES_SHOWN = 100
LINES_SHOWN = 8
Row = dict[str, Any]


def sections(history: Path, group: str) -> list[Section]:
    """From the tables in that folder; a section whose table has no rows is left out."""
    rebalances = sorted(rows_of(history / "rebalances", group), key=lambda r: (r["time_ms"], r["generation"]))
    lag = rows_of(history / "lag", group)
    owners = timeline(history, group, rebalances, _unowned(history, group))
    times = [r["time_ms"] for r in [*rebalances, *lag]]
    times += [ms for ms in ([] if owners is None else [owners.begin_ms, owners.end_ms]) if ms is not None]
    if not times:
        return []
    begin_ms, end_ms = min(times), max(times)
    if owners is not None:
        owners.reach(begin_ms, end_ms, *(spell.since_ms for spell in owners.unowned))
    made = [
        None if owners is None else timeline_section("Owners of each partition", TIMELINE_NOTE, owners),
        _causes(rebalances),
        _moves(rebalances),
        _lag(lag, begin_ms, end_ms),
        _rebalances(rebalances),
        _epochs(rows_of(history / "epochs", group)),
        _slow_to_release(rows_of(history / "reconciliations", group)),
        _stalls(rows_of(history / "stalls", group)),
        _flapping(rows_of(history / "flapping", group)),
    ]
    return [section for section in made if section is not None]


def summary(history: Path, group: str) -> str:
    """A sentence for the head of the page."""
    rebalances = rows_of(history / "rebalances", group)
    commits = sum(r["commits"] for r in rows_of(history / "cadence", group))
    members = len(rows_of(history / "tenures", group))
    return f"{quantity(len(rebalances), 'rebalance')}, {quantity(members, 'member')}, {quantity(commits, 'commit')}."


def _unowned(history: Path, group: str) -> list[UnownedSpell]:
    """From the facts of the history: the stored states, and the journal's or a broker's lines. [] without such lines."""
    states = sorted(rows_of(history / "group_log", group), key=lambda r: r["log_offset"])
    lines = sorted(rows_of(history / "server_lines", group), key=lambda r: (r["time_ms"], r["number"]))
    events = list(server_log_events(r["line"] for r in lines)) or list(journal_log_events(_journal(history, group)))
    return unowned_spells([r for r in states if r["kind"] in ("group", CONSUMER_GROUP)], events)


def _journal(history: Path, group: str) -> Iterator[JournalLine]:
    for row in sorted(rows_of(history / "journal", None), key=lambda r: r["offset"]):
        try:
            line = JournalLine.from_json(row["value"] or b"")
        except (ValueError, TypeError):
            continue
        if line.group == group:
            yield line


def timeline(history: Path, group: str, rebalances: list[Row], unowned: list[UnownedSpell]) -> Timeline | None:
    """The group's timeline from the tables of the history; None where no partition had an owner."""
    rows = rows_of(history / "ownership", group)
    if not rows:
        return None
    made = Timeline(group)
    instances = {r["member_id"]: r["group_instance_id"] for r in rows_of(history / "tenures", group)}
    for r in sorted(rows, key=lambda r: (r["topic"], r["partition"], r["from_ms"])):
        owner = owner_name(r["member_id"], r["client_id"] or "", instances.get(r["member_id"]))
        spell = Spell(made.lane((r["topic"], r["partition"])), made.owner(owner), r["from_ms"], r["until_ms"])
        last = made.owned[-1] if made.owned else None
        if last is not None and (last.lane, last.owner, last.until_ms) == (spell.lane, spell.owner, spell.from_ms):
            last.until_ms = spell.until_ms
        else:
            made.owned.append(spell)
        made.reach(spell.from_ms)
    made.add_unowned(unowned)
    epochs = {r["epoch"]: r for r in rows_of(history / "epochs", group)}
    made.rebalances = [_band(r, epochs.get(r["generation"])) for r in rebalances]
    for band in made.rebalances:
        made.reach(band.from_ms, band.until_ms or band.from_ms)
    return made


def _band(r: Row, epoch: Row | None) -> Band:
    """A rebalance of the table, with the phases as far as they are known."""
    end_ms = r["time_ms"]
    if r["event"] == "epoch_raised":
        target_ms = end_ms if epoch is None or epoch["target_ms"] is None else epoch["target_ms"]
        reconciled_ms = target_ms if epoch is None or epoch["reconciled_ms"] is None else epoch["reconciled_ms"]
        phases = [BandPhase("Assigning", end_ms, target_ms), BandPhase("Reconciling", target_ms, reconciled_ms)]
    else:
        formed_ms = end_ms - (r["sync_ms"] or 0)
        phases = [BandPhase("PreparingRebalance", formed_ms - (r["join_ms"] or 0), formed_ms)]
        phases += [] if r["sync_ms"] is None else [BandPhase("CompletingRebalance", formed_ms, end_ms)]
    figures = (r["members"], r["moved"], r.get("unowned"), r["unowned_ms"], r.get("undetected_ms"))
    return Band(r["generation"], phases, r["event"], [], r["why"] or "", *figures)


def _causes(rebalances: list[Row]) -> Section | None:
    if not rebalances:
        return None
    counted = Counter(CAUSE_TITLES.get(r["cause"], r["cause"] or "unknown") for r in rebalances)
    body = bars([(name, float(n)) for name, n in counted.most_common()], "rebalances by cause", "rebalances")
    return Section("Causes of rebalances", "Each rebalance under its first cause.", body, "causes")


def _moves(rebalances: list[Row]) -> Section | None:
    known = [r for r in rebalances if r["moved"] is not None][-30:]
    if not known:
        return None
    values = [(f"generation {r['generation']}", float(r["moved"])) for r in known]
    note = (
        "Partitions that went from one member to another in each of the last rebalances; a sticky assignor moves few."
    )
    return Section("Moved partitions", note, bars(values, "partitions moved by rebalance", "partitions"), "moves")


def _lag(rows: list[Row], begin_ms: int, end_ms: int) -> Section | None:
    by_topic: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for r in rows:
        if r["lag"] is not None:
            by_topic[r["topic"]][r["time_ms"]] += r["lag"]
    if not by_topic:
        return None
    highest = sorted(by_topic, key=lambda topic: -max(by_topic[topic].values()))[:LINES_SHOWN]
    lines = [
        Line(topic, [((t - begin_ms) / 1000, float(n)) for t, n in sorted(by_topic[topic].items())])
        for topic in highest
    ]
    body = line_chart(lines, (end_ms - begin_ms) / 1000, "lag over time", "records")
    return Section("Lag", "Records produced and not yet committed, by topic.", body, "lag")


def _rebalances(rebalances: list[Row]) -> Section | None:
    if not rebalances:
        return None
    short = ShortIds(r["why"] or "" for r in rebalances)
    cells = [
        [
            _time(r["time_ms"]),
            r["generation"],
            "-" if r["members"] is None else r["members"],
            _ms(r["join_ms"]),
            _ms(r["sync_ms"]),
            "-" if r["moved"] is None else r["moved"],
            unowned_text(r["unowned_ms"], r.get("unowned")) or "-",
            unowned_text(r.get("undetected_ms"), None) or "-",
            short(r["why"] or "unknown"),
        ]
        for r in rebalances[-REBALANCES_SHOWN:]
    ]
    headers = ["time (UTC)", "generation", "members", "join", "sync", "moved", "unowned", "undetected", "why"]
    sources = ", ".join(sorted({r["source"].replace("_", " ") for r in rebalances}))
    body = table(headers, cells, frozenset(range(8)))
    note = (
        f"Sources: {sources}. Unowned: for how long partitions had no live owner, summed over partitions; undetected: the part "
        "of it until the coordinator noticed the owner's death; N still: N partitions have no owner yet."
    )
    return Section("Rebalances", note, body)


def _epochs(rows: list[Row]) -> Section | None:
    if not rows:
        return None
    cells = [
        [
            _time(r["time_ms"]),
            r["epoch"],
            r["members"],
            _ms(_after(r["target_ms"], r["time_ms"])),
            _ms(_after(r["reconciled_ms"], r["time_ms"])),
            "-" if r["moved"] is None else r["moved"],
        ]
        for r in sorted(rows, key=lambda r: r["log_offset"])[-REBALANCES_SHOWN:]
    ]
    note = "How long until the epoch's target was computed, and until every member had its part; -: a later epoch came first."
    headers = ["time (UTC)", "epoch", "members", "target after", "reconciled after", "moved"]
    return Section("Epochs of the consumer protocol", note, table(headers, cells, frozenset(range(6))))


def _slow_to_release(rows: list[Row]) -> Section | None:
    """The longest times from the request to revoke partitions to their release, by member."""
    unfinished: dict[str, Row] = {}
    waits: list[tuple[int, Row]] = []
    for r in sorted(rows, key=lambda r: r["log_offset"]):
        begun = unfinished.get(r["member_id"])
        if begun is not None and not r["revoking"]:
            waits.append((r["time_ms"] - begun["time_ms"], begun))
            del unfinished[r["member_id"]]
        elif begun is None and r["revoking"]:
            unfinished[r["member_id"]] = r
    if not waits:
        return None
    longest = sorted(waits, key=lambda wait: -wait[0])[:20]
    cells = [
        [_time(r["time_ms"]), r["epoch"], r["client_id"] or r["member_id"], len(r["revoking"]), _ms(wait_ms)]
        for wait_ms, r in longest
    ]
    note = "The longest times from the request to revoke partitions to their release; other members wait for it."
    headers = ["from (UTC)", "epoch", "member", "partitions", "for"]
    return Section("Slow to release", note, table(headers, cells, frozenset({0, 1, 3, 4})))


def _after(time_ms: int | None, since_ms: int) -> int | None:
    return None if time_ms is None else time_ms - since_ms


def _stalls(rows: list[Row]) -> Section | None:
    if not rows:
        return None
    longest = sorted(rows, key=lambda r: -r["pause_ms"])[:20]
    cells = [
        [_time(r["from_ms"]), f"{r['topic']}-{r['partition']}", _ms(r["pause_ms"]), r["offset"], r["moved"]]
        for r in longest
    ]
    note = (
        "The longest times without progress in a partition: at least half a minute, and ten times its usual interval."
    )
    body = table(["from (UTC)", "partition", "for", "at offset", "then moved by"], cells, frozenset({0, 2, 3, 4}))
    return Section("Stalls", note, body)


def _flapping(rows: list[Row]) -> Section | None:
    if not rows:
        return None
    cells = [
        [r["client_id"], r["client_host"], r["lives"], r["short_lives"], _ms(r["median_life_ms"])]
        for r in sorted(rows, key=lambda r: -r["short_lives"])[:20]
    ]
    headers = ["client", "host", "member ids", "lived under 5 min", "median life"]
    return Section("Flapping members", "Clients that come and go.", table(headers, cells, frozenset({2, 3, 4})))


def _time(time_ms: int) -> str:
    at = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03}"


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.1f} s"
