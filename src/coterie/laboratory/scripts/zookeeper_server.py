"""The laboratory's ZooKeeper: nodes with versions, ephemeral ones, one-shot watches, sessions that expire.

One server with one order of everything, as ZooKeeper's leader gives it. A session is heard for as long as its owner is
alive and connected; it expires at the first tick that is its timeout after it was last heard, as the real server's buckets
do, and its ephemeral nodes go together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from coterie.laboratory.world import Service, Traffic, World
from coterie.zookeeper.operations import (
    ANY_VERSION,
    BadVersion,
    CheckVersion,
    Create,
    Delete,
    List,
    Multi,
    MultiRefused,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Read,
    ReadEach,
    SessionExpired,
    Write,
    Znode,
    ZooKeeperError,
)

TICK_MS = 2_000
OPERATIONS_PER_S = 40_000  # what one server of three gives a small read; it only matters where thousands come together
_HEADER_BYTES = 4 + 8  # length; xid and kind
_REPLY_BYTES = 4 + 16  # length; xid, zxid, error
_STAT_BYTES = 68
_ACL_BYTES = 35  # world:anyone, everything
_EVENT_BYTES = 4 + 16 + 12
PING_BYTES = _HEADER_BYTES + _REPLY_BYTES


@dataclass(slots=True)
class _Stored:
    data: str
    owner: int | None = None  # the session of an ephemeral one
    version: int = 0
    created: int = 0  # the transaction's id
    created_ms: int = 0
    created_below: int = 0  # children of it, for sequential ones
    children: set[str] = field(default_factory=set)

    def __copy__(self) -> _Stored:
        return replace(self, children=set(self.children))


@dataclass(slots=True)
class Session:
    """``event`` is called with the path whose watch fired; ``expired`` is for the server's side only."""

    number: int
    timeout_ms: int
    event: Callable[[str], None]
    last_ping_ms: int
    connected: bool = True
    expired: bool = False
    ephemerals: set[str] = field(default_factory=set)
    missed: list[str] = field(default_factory=list)  # watches that fired while it was not heard


@dataclass(slots=True)
class _LastRead:
    """``revision``: of the children of ``parent``, which all of the paths are."""

    paths: tuple[str, ...]
    parent: str
    revision: int
    values: list[str | None]
    size: int


class ZooKeeperServer:
    """The tree, its watches and its sessions. ``traffic``: what went either way; pings are not simulated, an actor's are
    counted at its end. ``tick_ms``: sessions expire at its multiples."""

    def __init__(self, world: World, tick_ms: int = TICK_MS) -> None:
        self.world, self._tick_ms = world, tick_ms
        self.events = self.expirations = 0
        self.traffic, self._service = Traffic(world), Service(world, OPERATIONS_PER_S)
        self.on_expired: Callable[[Session], None] = lambda _: None
        self._nodes = {"/": _Stored("")}
        self._watches: dict[tuple[str, bool], dict[int, Session]] = {}  # (path, of its children) -> who
        self._sessions = self._transactions = 0
        self._held_back: list[tuple[str, bool]] | None = None  # watches to fire when a transaction is done
        self._revisions: dict[str, int] = {}  # of all children of a node together
        self._last_read: _LastRead | None = None
        self._children: dict[str, tuple[list[str], int]] = {}  # sorted, with their bytes, until they change

    # -- sessions -------------------------------------------------------------------------------------------------------

    def connect(self, timeout_ms: int, event: Callable[[str], None]) -> Session:
        self._sessions += 1
        return Session(self._sessions, timeout_ms, event, self.world.now_ms)

    def unheard(self, session: Session) -> None:
        """From now on nothing comes from there: its last ping was up to a third of the timeout ago."""
        if session.connected:
            session.connected = False
            session.last_ping_ms = self.world.now_ms - self.world.between(0, session.timeout_ms // 3)
            due_ms = -(-(session.last_ping_ms + session.timeout_ms) // self._tick_ms) * self._tick_ms
            self.world.at(due_ms, lambda: self._expire(session, due_ms))

    def reconnected(self, session: Session) -> None:
        """Raises SessionExpired."""
        if session.expired:
            raise SessionExpired
        session.connected, session.last_ping_ms = True, self.world.now_ms
        for path in session.missed:
            self._notify(session, path)
        session.missed.clear()

    def _expire(self, session: Session, due_ms: int) -> None:
        if not session.connected and session.last_ping_ms + session.timeout_ms <= due_ms:
            if not session.expired:
                self.expirations += 1
                self.on_expired(session)
            self.close(session)

    def close(self, session: Session) -> None:
        """Ends the session at once, as a client does."""
        session.expired = True
        for path in sorted(session.ephemerals):
            node = self._nodes.get(path)
            if node is not None and node.owner == session.number:
                self._remove(path)
        session.ephemerals.clear()

    # -- operations -----------------------------------------------------------------------------------------------------

    def apply(self, session: Session, operation: Operation) -> object:
        """The response. Raises ZooKeeperError."""
        if session.expired:
            raise SessionExpired
        match operation:
            case Create() | Write() | Delete() | CheckVersion():
                self._change(session, operation)
            case Multi(operations):
                self._multi(session, operations)
            case Read(path, watch):
                return self._read(session, path, watch=watch)
            case ReadEach(paths):
                return self._read_each(paths)
            case List(path, watch):
                return self._list(session, path, watch=watch)
        return None

    def _change(self, session: Session, operation: Create | Write | Delete | CheckVersion) -> None:
        match operation:
            case Create(path, data, ephemeral, sequential):
                self._count(path, sent=len(data) + _ACL_BYTES, back=len(path))
                self._create(self._numbered(path) if sequential else path, data, session if ephemeral else None)
            case Write(path, data, version):
                self._count(path, sent=len(data) + 4, back=_STAT_BYTES)
                self._write(path, data, version)
            case Delete(path):
                self._count(path, sent=4, back=0)
                self._delete(path)
            case CheckVersion(path, version):
                self._count(path, sent=4, back=0)
                self._check(path, version)

    def _multi(self, session: Session, operations: Sequence[Create | Write | Delete | CheckVersion]) -> None:
        """One after the other, as each finds what those before it have left; all is taken back where one is refused."""
        paths = {
            path for operation in operations for path in (operation.path, operation.path.rpartition("/")[0] or "/")
        }
        before = {path: copy(self._nodes.get(path)) for path in paths}
        self._held_back = []
        for index, operation in enumerate(operations):
            try:
                self._check_made(operation)
                self._change(session, operation)
            except ZooKeeperError as error:
                self._held_back = None
                self._take_back(before)
                raise MultiRefused(index, error) from error
        fired, self._held_back = self._held_back, None
        for path, children in fired:
            self._fire(path, children=children)

    def _check_made(self, operation: Create | Write | Delete | CheckVersion) -> None:
        """Nothing is made on the way in a transaction. Raises NoNode."""
        needed = operation.path.rpartition("/")[0] or "/" if isinstance(operation, Create) else operation.path
        if needed not in self._nodes:
            raise NoNode

    def _take_back(self, before: Mapping[str, _Stored | None]) -> None:
        for path, node in before.items():
            if node is None:
                self._nodes.pop(path, None)
            else:
                self._nodes[path] = node

    def _check(self, path: str, version: int) -> None:
        if path not in self._nodes:
            raise NoNode
        if self._nodes[path].version != version:
            raise BadVersion

    def _numbered(self, path: str) -> str:
        parent = path.rpartition("/")[0] or "/"
        if parent not in self._nodes:
            self._make(parent, "", None)
        return f"{path}{self._nodes[parent].created_below:010d}"

    def _count(self, path: str, sent: int, back: int) -> None:
        self._served(1, _HEADER_BYTES + 4 + len(path) + sent + _REPLY_BYTES + back)

    def _served(self, operations: int, size: int) -> None:
        self._service.serve(operations)
        self.traffic.passed(2 * operations, size)

    def _read_each(self, paths: tuple[str, ...]) -> list[str | None]:
        """Thousands of members read the same thousands of nodes: what was read last is remembered until a node changes
        beside them."""
        last = self._last_read
        if last is None or last.paths is not paths or last.revision != self._revisions.get(last.parent, 0):
            last = self._read_anew(paths)
        self._served(len(paths), last.size)
        return last.values

    def _read_anew(self, paths: tuple[str, ...]) -> _LastRead:
        values = [self._nodes[path].data if path in self._nodes else None for path in paths]
        responses = sum(len(data) + _STAT_BYTES for data in values if data is not None)
        size = sum(len(path) for path in paths) + len(paths) * (_HEADER_BYTES + 5 + _REPLY_BYTES) + responses
        parents = {path.rpartition("/")[0] for path in paths}
        parent = min(parents, default="")
        read = _LastRead(paths, parent, self._revisions.get(parent, 0), values, size)
        if len(parents) == 1:
            self._last_read = read
        return read

    def ready_ms(self) -> int:
        """When the response to the last request leaves."""
        return self._service.ready_ms()

    def _create(self, path: str, data: str, session: Session | None) -> None:
        if path in self._nodes:
            raise NodeExists
        self._make(path, data, None if session is None else session.number)
        if session is not None:
            session.ephemerals.add(path)

    def _make(self, path: str, data: str, owner: int | None) -> None:
        parent, _, name = path.rpartition("/")
        parent = parent or "/"
        if parent not in self._nodes:
            self._make(parent, "", None)
        self._transactions += 1
        self._nodes[path] = _Stored(data, owner, created=self._transactions, created_ms=self.world.now_ms)
        self._nodes[parent].children.add(name)
        self._nodes[parent].created_below += 1
        self._changed_below(parent)
        self._fire(path, children=False)
        self._fire(parent, children=True)

    def _changed_below(self, parent: str) -> None:
        self._children.pop(parent, None)
        self._revisions[parent] = self._revisions.get(parent, 0) + 1

    def _write(self, path: str, data: str, version: int) -> None:
        node = self._nodes.get(path)
        if version != ANY_VERSION and (node is None or node.version != version):
            raise BadVersion
        if node is None:
            self._make(path, data, None)
            return
        node.data = data
        node.version += 1
        self._revisions[path.rpartition("/")[0]] = self._revisions.get(path.rpartition("/")[0], 0) + 1
        self._fire(path, children=False)

    def _delete(self, path: str) -> None:
        if path not in self._nodes:
            raise NoNode
        if self._nodes[path].children:
            raise NotEmpty
        self._remove(path)

    def _remove(self, path: str) -> None:
        if self._nodes.pop(path, None) is None:
            return
        parent, _, name = path.rpartition("/")
        parent = parent or "/"
        self._nodes[parent].children.discard(name)
        self._changed_below(parent)
        self._fire(path, children=False)
        self._fire(parent, children=True)

    def _read(self, session: Session, path: str, *, watch: bool) -> Znode | None:
        node = self._nodes.get(path)
        self._count(path, sent=1, back=0 if node is None else len(node.data) + _STAT_BYTES)
        if watch:
            self._watches.setdefault((path, False), {})[session.number] = session
        if node is None:
            return None
        return Znode(node.data, node.owner == session.number, node.version, node.created, node.created_ms)

    def _list(self, session: Session, path: str, *, watch: bool) -> list[str]:
        if path not in self._nodes and watch:
            self._make(path, "", None)
        node = self._nodes.get(path)
        if watch:
            self._watches.setdefault((path, True), {})[session.number] = session
        if node is None:
            self._count(path, sent=1, back=0)
            return []
        if path not in self._children:
            self._children[path] = sorted(node.children), 4 + sum(4 + len(name) for name in node.children)
        names, size = self._children[path]
        self._count(path, sent=1, back=size)
        return names

    def _fire(self, path: str, *, children: bool) -> None:
        """Fires each watch once, to the sessions that are connected."""
        if self._held_back is not None:
            self._held_back.append((path, children))
            return
        for session in self._watches.pop((path, children), {}).values():
            if session.connected:
                self._notify(session, path)
            elif not session.expired:
                session.missed.append(path)  # delivered at its reconnection, as to a client that sets its watches again

    def _notify(self, session: Session, path: str) -> None:
        self.events += 1
        self.traffic.passed(1, _EVENT_BYTES + len(path))
        self.world.after(self.world.delay_ms(), lambda: session.event(path))
