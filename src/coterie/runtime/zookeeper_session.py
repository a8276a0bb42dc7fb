"""A session with a real ZooKeeper, through kazoo: the machine's operations carried out, its watches kept.

kazoo drops watches when the connection breaks. ZooKeeper's own client sets them again when it is back, and hears at once
of what changed meanwhile; so does this one, by comparing the node's transaction id with the one it had seen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from coterie.runtime.extras import require
from coterie.zookeeper.operations import (
    ANY_VERSION,
    BadVersion,
    CheckVersion,
    ConnectionLost,
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
    Write,
    Znode,
    ZooKeeperError,
)

logger = logging.getLogger(__name__)
# As often as ZooKeeper's own client; kazoo would wait for a minute in the end, longer than most sessions live.
_RETRIES = {"max_tries": -1, "max_delay": 1.0}
# As Kafka's ZkData: consumers of 0.8 write there without a login; and what only brokers may read.
_OPEN_TO_ALL, _SECRET = "/consumers", ("/config/users", "/delegation_token/tokens")
_Watched = tuple[str, bool]  # a path, and whether its children are meant


class Unreachable(ZooKeeperError):
    """No session could be had; says what to do."""


@dataclass(frozen=True, slots=True)
class ZooKeeperLogin:
    """``credentials``: USER:PASSWORD of the scheme digest. ``sets_acls``: what is created belongs to them."""

    credentials: str = field(repr=False)
    sets_acls: bool = False


def connect(
    address: str, session_timeout_ms: int, connection_timeout_ms: int, login: ZooKeeperLogin | None = None
) -> Any:
    """A started kazoo client. Raises Unreachable where the address is none or nobody responds there, ExtraMissing without
    kazoo."""
    require("zookeeper", "ZooKeeper")
    from kazoo.client import KazooClient

    client = None
    try:
        timeout_s = session_timeout_ms / 1000
        auth = None if login is None else [("digest", login.credentials)]
        retries = dict(_RETRIES)
        client = KazooClient(
            hosts=address, timeout=timeout_s, connection_retry=retries, auth_data=auth, logger=_quiet()
        )
        client.start(connection_timeout_ms / 1000)
    except Exception as error:  # kazoo has a kind of its own for each way of not responding
        if client is not None:
            client.close()
        text = f"no ZooKeeper answers at {address} within {connection_timeout_ms} ms; is HOST:PORT right, and is it up?"
        raise Unreachable(text) from error
    return client


def _text(data: bytes | None) -> str:
    """``data``: None of a node without data, such as Kafka makes above others, or fills later."""
    return "" if data is None else data.decode(errors="replace")


def _quiet() -> logging.Logger:
    """What kazoo says of lost connections is said by the machine's own steps."""
    logger = logging.getLogger("coterie.kazoo")
    logger.setLevel(logging.ERROR)
    return logger


class ZooKeeperSession:
    """Carries operations out, one after the other. ``changed`` is called from kazoo's threads with the path whose watch fired,
    and so is ``state`` with LOST, SUSPENDED or CONNECTED."""

    def __init__(
        self,
        client: Any,
        changed: Callable[[str], None],
        state: Callable[[str], None],
        login: ZooKeeperLogin | None = None,
    ) -> None:
        self._client, self._changed, self._state = client, changed, state
        self._sets_acls = login is not None and login.sets_acls
        self._seen: dict[_Watched, int] = {}
        client.add_listener(self._state_changed)

    def apply(self, operation: Operation) -> object:
        """The response. Raises ZooKeeperError."""
        from kazoo import exceptions as kazoo

        try:
            return self._apply(operation)
        except kazoo.NodeExistsError as error:
            raise NodeExists from error
        except kazoo.NoNodeError as error:
            raise NoNode from error
        except kazoo.BadVersionError as error:
            raise BadVersion from error
        except kazoo.NotEmptyError as error:
            raise NotEmpty from error
        except (kazoo.ConnectionLoss, kazoo.SessionExpiredError, kazoo.ConnectionClosedError) as error:
            raise ConnectionLost from error  # that a session is over is told by ``state``
        except kazoo.ZookeeperError as error:
            raise ZooKeeperError(f"{type(error).__name__}: {error}") from error

    def _apply(self, operation: Operation) -> object:
        client = self._client
        match operation:
            case Create(path, data, ephemeral, sequential):
                self._create(path, data, ephemeral=ephemeral, sequential=sequential)
            case Multi(operations):
                self._multi(operations)
            case Write(path, data, version):
                self._write(path, data, version)
            case Delete(path):
                client.delete(path)
            case Read(path, watch):
                return self._read(path, watch=watch)
            case ReadEach(paths):
                return [self._response_of(result) for result in [client.get_async(path) for path in paths]]
            case List(path, watch):
                return self._list(path, watch=watch)
        return None

    def _create(self, path: str, data: str, *, ephemeral: bool = False, sequential: bool = False) -> None:
        """With the nodes above it."""
        from kazoo.exceptions import NoNodeError

        options = {"acl": self._acl(path), "ephemeral": ephemeral, "sequence": sequential}
        try:
            self._client.create(path, data.encode(), **options)
        except NoNodeError:
            self._ensure(path.rpartition("/")[0])
            self._client.create(path, data.encode(), **options)

    def _ensure(self, path: str) -> None:
        """A node without data, unless it exists."""
        from kazoo.exceptions import NodeExistsError

        if path and self._client.exists(path) is None:
            self._ensure(path.rpartition("/")[0])
            with suppress(NodeExistsError):
                self._client.create(path, b"", acl=self._acl(path))

    def _acl(self, path: str) -> Any:
        """None: everybody may do everything."""
        if not self._sets_acls or path.startswith(_OPEN_TO_ALL):
            return None
        from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

        return CREATOR_ALL_ACL if path.startswith(_SECRET) else CREATOR_ALL_ACL + READ_ACL_UNSAFE

    def own_root(self) -> None:
        """The root of the address belongs to the login, so that nobody else creates or deletes a node in it. Raises
        ZooKeeperError."""
        from kazoo.exceptions import KazooException

        if self._sets_acls:
            try:
                self._client.set_acls("/", self._acl("/"))
            except KazooException as error:
                raise ZooKeeperError(f"the ACL of the root cannot be set: {type(error).__name__}") from error

    def _write(self, path: str, data: str, version: int) -> None:
        from kazoo.exceptions import BadVersionError, NoNodeError

        try:
            self._client.set(path, data.encode(), version)
        except NoNodeError:
            if version != ANY_VERSION:
                raise BadVersionError from None
            self._create(path, data)

    def _multi(self, operations: tuple[Create | Write | Delete | CheckVersion, ...]) -> None:
        from kazoo import exceptions as kazoo

        refusals: dict[type[Exception], type[ZooKeeperError]] = {
            kazoo.NodeExistsError: NodeExists,
            kazoo.NoNodeError: NoNode,
            kazoo.BadVersionError: BadVersion,
            kazoo.NotEmptyError: NotEmpty,
        }
        transaction = self._client.transaction()
        for operation in operations:
            match operation:
                case Create(path, data, ephemeral, sequential):
                    acl = self._acl(path)
                    transaction.create(path, data.encode(), acl, ephemeral=ephemeral, sequence=sequential)
                case Write(path, data, version):
                    transaction.set_data(path, data.encode(), version)
                case Delete(path):
                    transaction.delete(path)
                case CheckVersion(path, version):
                    transaction.check(path, version)
        for index, result in enumerate(transaction.commit()):
            if type(result) in refusals:
                raise MultiRefused(index, refusals[type(result)]())
            if isinstance(result, (kazoo.ConnectionLoss, kazoo.SessionExpiredError)):
                raise result

    def _node(self, data: bytes | None, stat: Any) -> Znode:
        mine = stat.ephemeralOwner == self._client.client_id[0]
        return Znode(_text(data), mine, stat.version, stat.czxid, stat.ctime)

    def _response_of(self, result: Any) -> str | None:
        from kazoo.exceptions import NoNodeError

        try:
            return _text(result.get()[0])
        except NoNodeError:
            return None

    def _read(self, path: str, *, watch: bool) -> Znode | None:
        from kazoo.exceptions import NoNodeError

        watcher = self._watcher if watch else None
        try:
            data, stat = self._client.get(path, watch=watcher)
        except NoNodeError:
            if watch and self._client.exists(path, watch=watcher) is not None:
                return self._read(path, watch=watch)  # made in between
            self._remember(path, watch=watch, children=False, seen=0)
            return None
        self._remember(path, watch=watch, children=False, seen=stat.mzxid)
        return self._node(data, stat)

    def _list(self, path: str, *, watch: bool) -> list[str]:
        from kazoo.exceptions import NoNodeError

        if watch:
            self._ensure(path)
        try:
            names, stat = self._client.get_children(path, self._watcher if watch else None, include_data=True)
        except NoNodeError:
            return []
        self._remember(path, watch=watch, children=True, seen=stat.pzxid)
        return sorted(names)

    # -- watches --------------------------------------------------------------------------------------------------------

    def _remember(self, path: str, *, watch: bool, children: bool, seen: int) -> None:
        if watch:
            self._seen[path, children] = seen

    def _watcher(self, event: Any) -> None:
        if event.type != "NONE":  # that is kazoo dropping it with the connection
            self._seen.pop((event.path, event.type == "CHILD"), None)
            self._changed(event.path)

    def _state_changed(self, state: str) -> None:
        if state == "LOST":
            self._seen.clear()
        self._state(state)
        if state == "CONNECTED" and self._seen:
            self._client.handler.spawn(self._watch_again)

    def _watch_again(self) -> None:
        from kazoo.exceptions import KazooException

        for (path, children), seen in list(self._seen.items()):
            try:
                stat = self._client.exists(path, None if children else self._watcher)
                if children:
                    stat = self._client.get_children(path, self._watcher, include_data=True)[1]
            except KazooException:
                return  # lost again: the next connection does it
            now = 0 if stat is None else stat.pzxid if children else stat.mzxid
            if now != seen and self._seen.pop((path, children), None) is not None:
                self._changed(path)

    def is_connected(self) -> bool:
        return bool(self._client.connected)

    def close(self) -> None:
        """Ends the session: its ephemeral nodes go at once."""
        self._client.stop()
        self._client.close()
