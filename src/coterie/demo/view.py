"""The live view: generation, owners, lag, and every rebalance with its cause and duration."""

from __future__ import annotations

import re

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from coterie.console.terminal import text_of
from coterie.demo.failover import ClusterWatch
from coterie.demo.watcher import Watch, short_name
from coterie.text.quantity import quantity

COLOURS = ("bright_blue", "yellow", "green", "magenta", "cyan", "red")
_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class View:
    """Draws a `Watch`, and the brokers of a ``cluster``. Off a terminal it prints only what happens, a line each."""

    def __init__(self, console: Console, watch: Watch, cluster: ClusterWatch | None = None) -> None:
        self._console, self._watch, self._cluster = console, watch, cluster
        self.total = self.sent = 0
        self.step = "starting"
        self._names: dict[str, str] = {}
        self._live: Live | None = None
        self._shown = 0

    def __enter__(self) -> View:
        if self._console.is_terminal:
            self._live = Live(self._draw(), console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def happened(self, text: str) -> None:
        """Something the demo did; stays on the screen above the view."""
        self.step = text
        self._console.print(Text("· ", "dim").append(text_of(text)), highlight=False)

    def refresh(self) -> None:
        """Draws the view again; without a terminal it prints a line for each new generation."""
        if self._live is not None:
            self._live.update(self._draw())
        for line in self._watch.rebalances()[self._shown :]:
            self._shown += 1
            if self._live is None:
                took = (line.join_ms or 0) + (line.sync_ms or 0)
                moved = f"{took} ms, {quantity(line.moved_count or 0, 'partition')} moved"
                self._console.print(text_of(f"  generation {line.generation}: {plain(line.why())}; {moved}"))

    def colour(self, name: str) -> str:
        return self._names.setdefault(name, COLOURS[len(self._names) % len(COLOURS)])

    def _draw(self) -> RenderableType:
        watch = self._watch
        head = Table.grid(padding=(0, 2))
        head.add_row("produced", ProgressBar(self.total or 1, self.sent, width=40), f"{self.sent:,} of {self.total:,}")
        lags = [watch.last_lag(g) for g in ("crew", "delays")]
        shown = ["-" if lag is None else f"{lag:,}" for lag in lags]
        head.add_row("group crew", f"{watch.state}, generation {watch.generation}", f"lag {shown[0]}")
        head.add_row(
            "Spark, group delays", "reading and aggregating" if lags[1] is not None else "starting", f"lag {shown[1]}"
        )
        if self._cluster is not None:
            coordinator = self._cluster.coordinator
            up = ", ".join(map(str, sorted(self._cluster.live))) or "-"
            lacking = quantity(self._cluster.under_replicated, "partition")
            head.add_row(
                "brokers", f"{up} up; crew's coordinator: {coordinator or 'none'}", f"under-replicated {lacking}"
            )
        owners = Table(title="owner of each partition", title_justify="left", box=None, padding=(0, 1))
        cells = []
        for partition in sorted(watch.owners):
            name = watch.owners[partition]
            owners.add_column(str(partition), justify="center")
            cells.append(text_of(name, self.colour(name)))
        if cells:
            owners.add_row(*cells)
            owners.add_row(*(f"{watch.lag_by_partition.get(p, 0):,}" for p in sorted(watch.owners)), style="dim")
        log = Table(title="rebalances", title_justify="left", box=None, padding=(0, 1), header_style="dim")
        for name in ("generation", "members", "took", "moved", "why"):
            log.add_column(name)
        for line in watch.rebalances()[-6:]:
            took = f"{(line.join_ms or 0) + (line.sync_ms or 0)} ms"
            log.add_row(
                str(line.generation), str(line.members), took, str(line.moved_count), text_of(plain(line.why()))
            )
        return Group(Text(""), head, Text(""), owners, Text(""), log)


def plain(why: str) -> str:
    """Causes with members' names instead of their ids."""
    return _UUID.sub("", why)


__all__ = ["View", "plain", "short_name"]
