"""The network between the hosts of a simulation: latency, lost packets, cuts, slow readers, resets, machines without power.

It carries TCP's streams, so that a lost packet is a pause (its retransmission), nothing arrives twice, and nothing is
reordered within a connection. During a cut data waits at the sender, as TCP sends it again and again; after `give_up_s` the
connection ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie.simulation.process import CURRENT, SimulatedProcess, VirtualLoop
from coterie.simulation.transport import Address, SimulatedServer, SimulatedTransport

FIRST_PORT = 20_000
RETRANSMISSION_S = 0.2  # Linux's first
BETWEEN_PIECES_S = 0.000_002  # a program may run between two pieces of a stream
LOCALHOST = ("localhost", "127.0.0.1", "0.0.0.0", "::1", "::", "")


@dataclass(slots=True)
class PacketFaults:
    """What may happen to each packet. ``loss`` and ``split`` are shares between 0 and 1: of the packets that are sent again,
    and of the writes that arrive in two pieces."""

    min_latency_s: float = 0.0002
    max_latency_s: float = 0.001
    loss: float = 0.0
    split: float = 0.0
    connect_timeout_s: float = 127.0  # Linux's, with six SYNs
    give_up_s: float = 924.0  # Linux's, with fifteen retransmissions


class SimulatedNetwork:
    """``trace`` is called with a line of bytes for each event: its time, from, to, and what."""

    def __init__(self, loop: VirtualLoop, rng: random.Random, trace: Callable[[bytes], None]) -> None:
        self.loop, self.rng = loop, rng
        self.faults = PacketFaults()
        self.delivered = 0  # pieces of streams
        self._trace = trace
        self._hosts: dict[str, None] = {}
        self._down: set[str] = set()
        self._cuts: dict[tuple[str, str], float] = {}  # (from, to) -> since when
        self._waiting: dict[tuple[str, str], list[Callable[[], None]]] = {}  # behind a cut
        self._bytes_per_s: dict[str, float] = {}
        self._listeners: dict[Address, SimulatedServer] = {}
        self._transports: dict[SimulatedTransport, None] = {}
        self._next_port = FIRST_PORT
        # Of no process: what is on its way arrives whatever becomes of its sender.
        self._context = contextvars.Context()

    # -- hosts ------------------------------------------------------------------------------------------------------------

    def add_host(self, name: str) -> None:
        """Makes the name known; a process that is spawned does it by itself."""
        self._hosts.setdefault(name)

    def resolve(self, host: str) -> str:
        """The host of a name. Raises socket.gaierror."""
        if host in LOCALHOST:
            return self.own_host()
        if host not in self._hosts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return host

    def own_host(self) -> str:
        """The host of the process that runs; "localhost" outside of all."""
        process = CURRENT.get()
        return "localhost" if process is None else process.host

    def is_up(self, host: str) -> bool:
        """False after `power_off`."""
        return host not in self._down

    def power_off(self, host: str) -> None:
        """The host falls silent: its connections end without a word to their peers, which find out by their timeouts."""
        self._down.add(host)
        for transport in [each for each in self._transports if each.local[0] == host]:
            transport.vanish()

    def power_on(self, host: str) -> None:
        """Packets reach the host again; those of connections from before are refused with a RST."""
        self._down.discard(host)

    # -- faults -----------------------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Nothing passes from one host to the other, until `heal`."""
        for pair in [(source, target), (target, source)][: 1 + both_ways]:
            self._cuts.setdefault(pair, self.loop.now_s)

    def isolate(self, host: str) -> None:
        """Cuts the host off from all others."""
        for other in self._hosts:
            if other != host:
                self.cut(host, other)

    def heal(self, source: str | None = None, target: str | None = None) -> None:
        """Ends the cuts between two hosts, all cuts of one, or all; what waited is sent again."""
        named = {host for host in (source, target) if host is not None}
        for pair in [pair for pair in self._cuts if named <= set(pair)]:
            del self._cuts[pair]
            for deliver in self._waiting.pop(pair, []):
                self._call_at(self.loop.now_s + self.latency_s(), deliver)

    def slow_down(self, host: str, bytes_per_s: float | None) -> None:
        """The host receives no more than this; None: as fast as all."""
        if bytes_per_s is None:
            self._bytes_per_s.pop(host, None)
        else:
            self._bytes_per_s[host] = bytes_per_s

    def reset_connections(self, one: str, other: str | None = None) -> int:
        """Ends the connections between two hosts, or all of one, with a RST at both ends; returns how many. What is on its way
        is lost, so that a frame may end half-way."""
        ends = [t for t in self._transports if t.local[0] == one and other in (None, t.remote[0])]
        for transport in ends:
            transport.reset()
            if transport.peer is not None:
                transport.peer.reset()
        return len(ends)

    def latency_s(self) -> float:
        """Of one packet, with its retransmissions."""
        faults = self.faults
        latency_s = self.rng.uniform(faults.min_latency_s, faults.max_latency_s)
        pause_s = RETRANSMISSION_S
        while faults.loss and self.rng.random() < faults.loss:
            latency_s += pause_s
            pause_s *= 2
        return latency_s

    # -- connections ------------------------------------------------------------------------------------------------------

    def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int, *, accepts: bool = True
    ) -> SimulatedServer:
        """Raises OSError for an address in use."""
        address = self.resolve(host or ""), port or self._new_port()
        if address in self._listeners:
            raise OSError(98, f"error while attempting to bind on address {address!r}: address already in use")
        server = self._listeners[address] = SimulatedServer(self, factory, address, CURRENT.get(), accepts=accepts)
        return server

    def unlisten(self, server: SimulatedServer) -> None:
        """Connections that are open stay."""
        if self._listeners.get(server.address) is server:
            del self._listeners[server.address]

    def listens(self, server: SimulatedServer) -> bool:
        """Whether it has not been closed."""
        return self._listeners.get(server.address) is server

    def close_listeners(self, process: SimulatedProcess) -> None:
        """Of a process that has ended."""
        for server in [each for each in self._listeners.values() if each.process is process]:
            self.unlisten(server)

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, is_private: bool = False
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        """``is_private``: its bytes are no seed's. Raises OSError: refused, timed out, or no such host."""
        own, target = self.own_host(), self.resolve(host)
        await self._handshake(own, target)
        server = self._listeners.get((target, port))
        if server is None or not server.accepts:
            raise ConnectionRefusedError(111, f"Connect call failed ({host!r}, {port})")
        local = own, self._new_port()
        end = SimulatedTransport(self, local, (host, port))
        peer = server.context.copy().run(SimulatedTransport, self, (target, port), local)
        protocol = factory()
        end.is_private = peer.is_private = is_private
        self._transports[end] = self._transports[peer] = None
        end.peer, peer.peer = peer, end
        self.loop.call_soon(self._accept, server, peer, end, context=peer._context)
        end.opened(protocol, peer)
        return end, protocol

    def _accept(self, server: SimulatedServer, peer: SimulatedTransport, end: SimulatedTransport) -> None:
        peer.opened(server.factory(), end)

    async def _handshake(self, own: str, target: str) -> None:
        """A SYN and its response. Raises TimeoutError."""
        deadline_s = self.loop.now_s + self.faults.connect_timeout_s
        await asyncio.sleep(self.latency_s() + self.latency_s())
        pause_s = 1.0
        while not self._passes(own, target) or not self._passes(target, own):
            if self.loop.now_s >= deadline_s:
                raise TimeoutError(110, f"Connect call failed ({target!r})")
            await asyncio.sleep(min(pause_s, max(deadline_s - self.loop.now_s, 0.001)))
            pause_s *= 2

    def _passes(self, source: str, target: str) -> bool:
        return (source, target) not in self._cuts and self.is_up(source) and self.is_up(target)

    def _new_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def closed(self, transport: SimulatedTransport) -> None:
        """This end is over."""
        self._transports.pop(transport, None)

    # -- packets ----------------------------------------------------------------------------------------------------------

    def send(self, end: SimulatedTransport, data: bytes | None) -> None:
        """Part of a stream, or its end (None), arrives behind what was sent before."""
        if data and len(data) > 1 and self.faults.split and self.rng.random() < self.faults.split:
            # Of TLS the length may be another in each run: a draw that does not depend on it.
            at = 1 + int(self.rng.random() * (len(data) - 1)) if end.is_private else self.rng.randrange(1, len(data))
            self._send(end, data[:at])
            data = data[at:]
        self._send(end, data)

    def _send(self, end: SimulatedTransport, data: bytes | None) -> None:
        pace = self._bytes_per_s.get(end.remote_host)
        at_s = max(self.loop.now_s + self.latency_s(), end.due_s + BETWEEN_PIECES_S)
        end.due_s = at_s + (len(data or b"") / pace if pace else 0.0)
        self._call_at(end.due_s, self._deliver, end, data, self.loop.now_s)

    def send_reset(self, end: SimulatedTransport) -> None:
        """Nothing that was sent before is guaranteed to be read."""
        self._call_at(max(self.loop.now_s + self.latency_s(), end.due_s), self._deliver_reset, end)

    def _call_at(self, when: float, callback: Callable[..., object], *args: Any) -> None:
        self.loop.call_at_world(when, callback, *args, context=self._context)

    def _deliver(self, end: SimulatedTransport, data: bytes | None, sent_s: float) -> None:
        pair = end.local[0], end.remote_host
        if pair in self._cuts:
            if not self._waiting.get(pair):
                self._call_at(sent_s + self.faults.give_up_s, self._give_up, end, sent_s)
            self._waiting.setdefault(pair, []).append(lambda: self._deliver(end, data, sent_s))
            return
        peer = end.peer
        if peer is None or not self.is_up(pair[1]) or not self.is_up(pair[0]):
            return
        self.delivered += 1
        self._note(end, b"FIN" if data is None else b"TLS" if end.is_private else b"%d " % len(data) + data)
        if peer.vanished:
            end.reset()  # its machine is up again and knows no such connection
        else:
            peer.arrive(data)

    def _note(self, end: SimulatedTransport, what: bytes) -> None:
        self._trace(f"{self.loop.now_s:.6f} {end.local[0]}>{end.remote_host} ".encode() + what)

    def _give_up(self, end: SimulatedTransport, sent_s: float) -> None:
        since_s = self._cuts.get((end.local[0], end.remote_host))
        if since_s is not None and since_s <= sent_s + self.faults.give_up_s:
            end.reset(TimeoutError(110, "Connection timed out"))

    def _deliver_reset(self, end: SimulatedTransport) -> None:
        pair = end.local[0], end.remote_host
        if pair in self._cuts:
            self._waiting.setdefault(pair, []).append(lambda: self._deliver_reset(end))
        elif end.peer is not None and self.is_up(pair[1]):
            self._note(end, b"RST")
            end.peer.reset()
