"""For those who test consumers: a broker in the test's own process, with control of the group protocol.

`coterie.pytest_plugin` makes it the fixture ``coterie_broker``; without pytest, `LocalBroker` is a context manager:

    with LocalBroker() as broker:
        broker.create_topic("orders", 6)
        ...any client in any language connects to broker.bootstrap_servers...
        broker.fail("OffsetCommit", ErrorCode.COORDINATOR_NOT_AVAILABLE, times=2)
        broker.until_stable("billing", members=2)

`LocalProxy` stands before any Kafka and has the same faults. `RemoteBroker` is a broker
elsewhere, over its control API. `simulate` is a world in virtual time (`simulated`).
"""

from __future__ import annotations

from coterie.testing.control.remote_broker import RemoteBroker
from coterie.testing.local_broker import LocalBroker
from coterie.testing.local_proxy import LocalProxy
from coterie.testing.security.access_controls import allow
from coterie.testing.simulated import simulate
from coterie.wire.errors import ErrorCode

__all__ = ["ErrorCode", "LocalBroker", "LocalProxy", "RemoteBroker", "allow", "simulate"]
