"""Whether a request between brokers comes from a broker, in a cluster without an authorizer: its connection must come from an
address that a broker has registered in ZooKeeper, or that a setting names.

With an authorizer CLUSTER_ACTION decides. On one machine all have its address: there only an authorizer keeps strangers out.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Collection

from coterie.authorizer.authorizer import covers
from coterie.controller.nodes import registration_of
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Corrupt, List, Operation, Read, Znode, ZooKeeperError

logger = logging.getLogger(__name__)

REPORT_AGAIN_S = 60.0


class RegisteredSenders:
    """``apply`` carries an operation out in ZooKeeper; ``own``: what this broker registers, whose address is always known;
    ``others``: further addresses and networks that are admitted."""

    def __init__(self, apply: Callable[[Operation], Awaitable[object]], own: str, others: Collection[str]) -> None:
        self._apply, self._own, self._others = apply, own, others
        self._known: set[str] = set()
        self._waiting: list[tuple[str, Callable[[bool], None]]] = []
        self._reading: asyncio.Task[None] | None = None
        self._reported_s: dict[str, float] = {}

    def knows(self, address: str) -> bool:
        """Whether it was a broker's when the registrations were last read."""
        return address in self._known or any(covers(other, address) for other in self._others)

    def decide(self, address: str, decided: Callable[[bool], None]) -> None:
        """``decided`` gets what `knows` says once the registrations were read: one reading serves all that wait."""
        self._waiting.append((address, decided))
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._respond())

    async def _respond(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            await self._read()
            for address, decided in waiting:
                is_known = self.knows(address)
                if not is_known:
                    self._report(address)
                decided(is_known)
        self._reading = None

    def _report(self, address: str) -> None:
        """A line about a stranger, once a minute."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._reported_s.get(address, now_s - REPORT_AGAIN_S) >= REPORT_AGAIN_S:
            self._reported_s = {address: now_s}
            text = "refusing a request between brokers from %s, where no broker is registered; coterie.inter.broker.addresses"
            logger.warning("%s may name it", text % address)

    async def _read(self) -> None:
        """A ZooKeeper that cannot be reached leaves what was known."""
        known = await _addresses(self._own)
        try:
            for broker in await self._ids():
                node = await self._apply(Read(f"{paths.BROKERS}/{broker}"))
                if isinstance(node, Znode):
                    known |= await _addresses(node.data)
        except ZooKeeperError as error:
            logger.warning("ZooKeeper cannot be read (%r): brokers that are new to this one are refused", error)
            known |= self._known
        self._known = known

    async def _ids(self) -> list[str]:
        ids: list[str] = await self._apply(List(paths.BROKERS))  # type: ignore[assignment]
        return ids


async def _addresses(registration: str) -> set[str]:
    """The addresses of the hosts that a broker has registered."""
    try:
        hosts = {endpoint.host for endpoint in registration_of(registration).endpoints}
    except Corrupt:
        return set()
    addresses = set()
    for host in hosts:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            try:
                resolved = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError:
                continue
            addresses |= {str(entry[4][0]) for entry in resolved}
        else:
            addresses.add(host)
    return addresses
