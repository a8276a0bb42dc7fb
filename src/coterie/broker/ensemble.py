"""The cluster of a broker process: the ZooKeeper ensemble of its zookeeper.connect, the cluster's id there, and the way in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from coterie.broker.cluster.peers.secured import peer_dial
from coterie.broker.cluster.settings import cluster_config
from coterie.broker.cluster.zookeeper.session import ClusterSession, KazooSession, SessionEvents
from coterie.broker.joining import join
from coterie.broker.node import BrokerNode
from coterie.broker.settings import BrokerSettings, SettingError
from coterie.controller import nodes
from coterie.runtime.zookeeper_session import Unreachable, ZooKeeperLogin, ZooKeeperSession, connect
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Create, NodeExists, Read, Znode, ZooKeeperError

_EVERY_ADDRESS = ("0.0.0.0", "::")
SESSIONS_WAITED_FOR = 2  # until the registration of an earlier process of this broker is gone


def _ensemble(settings: BrokerSettings) -> tuple[str, int, int, ZooKeeperLogin | None]:
    """Raises SettingError."""
    own = settings.current
    assert own.zookeeper_connect, "a broker of a cluster without zookeeper.connect"
    digest = own.coterie_zookeeper_digest
    if digest is not None and not all(digest.partition(":")):
        raise SettingError("coterie.zookeeper.digest must be USER:PASSWORD")
    if own.zookeeper_set_acl and digest is None:
        raise SettingError("zookeeper.set.acl=true needs coterie.zookeeper.digest, the login to which the nodes belong")
    login = None if digest is None else ZooKeeperLogin(digest, own.zookeeper_set_acl)
    return own.zookeeper_connect, own.zookeeper_session_timeout_ms, own.zookeeper_connection_timeout_ms, login


async def read_cluster_id(settings: BrokerSettings, new_id: Callable[[], str]) -> str:
    """The cluster's id; the first broker of the cluster makes it. Raises Unreachable."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, _read_cluster_id, *_ensemble(settings), new_id)


def _read_cluster_id(
    address: str,
    session_timeout_ms: int,
    connection_timeout_ms: int,
    login: ZooKeeperLogin | None,
    new_id: Callable[[], str],
) -> str:
    servers, slash, chroot = address.partition("/")
    try:
        if slash:
            with _session(servers, session_timeout_ms, connection_timeout_ms, login) as above, suppress(NodeExists):
                above.apply(Create(slash + chroot, "", ephemeral=False))
        with _session(address, session_timeout_ms, connection_timeout_ms, login) as session:
            session.own_root()
            node = session.apply(Read(nodes.CLUSTER_ID))
            if not isinstance(node, Znode):
                with suppress(NodeExists):  # another broker was first
                    session.apply(Create(nodes.CLUSTER_ID, nodes.cluster(new_id()), ephemeral=False))
                node = session.apply(Read(nodes.CLUSTER_ID))
            return nodes.cluster_id_of(node.data if isinstance(node, Znode) else "")
    except ZooKeeperError as error:
        if isinstance(error, Unreachable):
            raise
        raise Unreachable(f"the cluster's id cannot be read in ZooKeeper at {address}: {reason(error)}") from error


@contextmanager
def _session(
    address: str, session_timeout_ms: int, connection_timeout_ms: int, login: ZooKeeperLogin | None
) -> Iterator[ZooKeeperSession]:
    """Raises Unreachable."""
    client = connect(address, session_timeout_ms, connection_timeout_ms, login)
    session = ZooKeeperSession(client, lambda path: None, lambda state: None, login)
    try:
        yield session
    finally:
        session.close()


def reason(error: ZooKeeperError) -> str:
    return str(error) or type(error).__name__


async def join_ensemble(
    node: BrokerNode, address: tuple[str, int], *, lost_power: bool, failed: Callable[[Exception], None]
) -> None:
    """Returns once the broker, whose ``cluster_id`` is known and which serves at ``address``, is registered. ``failed`` is
    called with what the broker cannot go on after. Raises Unreachable, and SettingError where no other broker could use the
    address."""
    if address[0] in _EVERY_ADDRESS:
        raise SettingError(
            "advertised.listeners must name the address at which the other brokers reach this one, because it listens on every "
            "address of the machine; add --set advertised.listeners=HOST:PORT"
        )
    ensemble, session_timeout_ms, connection_timeout_ms, login = _ensemble(node.settings)
    config = cluster_config(node.settings, lost_power=lost_power)

    async def open_session(events: SessionEvents) -> ClusterSession:
        return await KazooSession(events).open(ensemble, session_timeout_ms, connection_timeout_ms, login)

    limit_s = SESSIONS_WAITED_FOR * session_timeout_ms / 1000
    dial = peer_dial(node.settings)
    joining = asyncio.create_task(join(node, address, config, node.cluster_id, open_session, dial, failed=failed))
    try:
        while not joining.done():
            await asyncio.wait({joining}, timeout=limit_s)
            if not joining.done() and await _is_registered_elsewhere(node):
                raise Unreachable(
                    f"another broker is registered in ZooKeeper at {ensemble} with broker.id {config.broker_id}; "
                    "stop it, or give this one another id"
                )
        joining.result()
    except ZooKeeperError as error:
        if isinstance(error, Unreachable):
            raise
        text = f"broker {config.broker_id} could not register in ZooKeeper at {ensemble}: {reason(error)}"
        raise Unreachable(text) from error
    finally:
        joining.cancel()


async def _is_registered_elsewhere(node: BrokerNode) -> bool:
    """The session of an earlier process of this broker is over by now."""
    if node.member is None or not node.member.driver.has_session:
        return False
    registered = await node.member.driver.apply(Read(paths.broker(node.node_id)))
    return isinstance(registered, Znode) and not registered.mine
