"""A `coterie.proxy` before a broker that keeps the requests of transactions, and strikes at a chosen one."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from coterie.proxy.proxy import Proxy
from coterie.proxy.requests import RequestHead
from coterie.testing.faults import API_KEYS, FaultRule
from coterie.testing.loop_thread import START_S, LoopThread

HOST = "127.0.0.1"
PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 0, 22, 24, 25, 26, 28
KEPT = frozenset({PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT})


class Moment(Enum):
    """When a strike comes."""

    BEFORE = "before the broker has the request"
    AFTER = "once the broker may have the request"
    RESPONSE = "before the client has the response"


@dataclass(slots=True)
class Strike:
    """``work`` is called at the ``count``-th request of the API, and from then on all connections are cut and refused."""

    api_key: int
    count: int
    moment: Moment
    work: Callable[[], object]


@dataclass(slots=True, eq=False)
class Exchange:
    """A request of a transaction and its response; None where it was lost."""

    api_key: int
    request: Any
    response: Any = None


@dataclass(slots=True)
class Recorder:
    """What the proxy asks of its rules and of its watcher. ``hit`` carries the strike out."""

    hit: Callable[[], None]
    exchanges: list[Exchange] = field(default_factory=list)
    strike: Strike | None = None
    struck_at: Exchange | None = None  # of a strike at the response
    requested: Counter[str] = field(default_factory=Counter)

    def watches(self, api_key: int) -> bool:
        return api_key in KEPT

    def concern(self, api: str, client_id: str) -> bool:
        return self.strike is not None and API_KEYS[api] == self.strike.api_key

    def taken(self, api: str, request: Any, client_id: str) -> FaultRule | None:
        strike = self.strike
        if strike is None or API_KEYS[api] != strike.api_key:
            return None
        strike.count -= 1
        if strike.count or strike.moment is not Moment.BEFORE:
            return None
        self.exchanges.append(Exchange(strike.api_key, request))
        self.hit()
        return FaultRule(api, None, None, 0, is_cut=True)

    def sent(self, head: RequestHead, request: Any, client_host: str) -> Exchange | None:
        if head.api_key not in KEPT:
            return None
        exchange, strike = Exchange(head.api_key, request), self.strike
        self.exchanges.append(exchange)
        if strike is not None and strike.api_key == head.api_key and not strike.count:
            if strike.moment is Moment.RESPONSE:
                self.struck_at = exchange
            else:
                asyncio.get_running_loop().call_later(0.001, self.hit)
        return exchange

    def responded(self, seen: Exchange, response: Any) -> None:
        if seen is self.struck_at:
            self.struck_at = None
            self.hit()
        else:
            seen.response = response

    def named(self, head: RequestHead, request: Any, response: Any) -> None:
        """Nothing depends on it."""

    def own_response(self, request: Any) -> None:
        """None."""


class RecordingProxy(LoopThread):
    """On a port of 127.0.0.1, in a thread; ``exchanges`` in the order of the requests. Close it."""

    def __init__(self, port: int, broker_port: int) -> None:
        super().__init__("proxy")
        self._port, self._broker = port, (HOST, broker_port)
        self._recorder, self.struck = Recorder(self._hit), threading.Event()
        self.exchanges = self._recorder.exchanges
        self._begin()
        self.accept()

    @property
    def address(self) -> str:
        return f"{HOST}:{self._port}"

    def accept(self) -> None:
        """Connections, after a strike too."""
        self.struck.clear()
        self._proxy = Proxy([self._broker], rules=self._recorder, watcher=self._recorder)
        self._on_loop(self._proxy.start(HOST, self._port), START_S)

    def strike_at(self, strike: Strike) -> None:
        self._call(lambda: setattr(self._recorder, "strike", strike))

    def refuse(self) -> None:
        """Cuts and refuses all connections, where no strike has done so."""
        self._recorder.strike = None
        self._on_loop(self._proxy.stop(), START_S)

    def close(self) -> None:
        self.refuse()
        self._end()

    def _hit(self) -> None:
        """On the loop."""
        strike, self._recorder.strike = self._recorder.strike, None
        if strike is not None:
            strike.work()
            self._proxy.drop_connections(None)  # now: what is being passed does not arrive
            asyncio.get_running_loop().create_task(self._proxy.stop())  # it runs to its end without a wait
            self.struck.set()
