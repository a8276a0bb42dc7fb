"""Requests that this broker does not serve: each closes its connection, as in Kafka, and is counted here.

A client that repeats such a request is logged once for each API and version.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.broker.requests.calls import Call
from coterie.wire.apis import APIS

KINDS_KEPT = 1_000  # of requests; a client may send any of 65,536 keys


class Unserved(NamedTuple):
    """An API of Kafka that is not served; ``reason`` completes "not served, because"."""

    name: str
    reason: str


_REASONS = {
    "it is sent between brokers and their controller, and this broker is alone": {
        4: "LeaderAndIsr",
        5: "StopReplica",
        6: "UpdateMetadata",
        7: "ControlledShutdown",
        56: "AlterPartition",
        58: "Envelope",
        62: "BrokerRegistration",
        63: "BrokerHeartbeat",
        67: "AllocateProducerIds",
        70: "ControllerRegistration",
        73: "AssignReplicasToDirs",
    },
    "the controllers' quorum (KRaft) uses it, and there is none": {
        52: "Vote",
        53: "BeginQuorumEpoch",
        54: "EndQuorumEpoch",
        55: "DescribeQuorum",
        59: "FetchSnapshot",
        80: "AddRaftVoter",
        81: "RemoveRaftVoter",
        82: "UpdateRaftVoter",
    },
}
UNSERVED: dict[int, Unserved] = {
    key: Unserved(name, reason) for reason, names in _REASONS.items() for key, name in names.items()
}


class UnservedRequest(NamedTuple):
    """A kind of request: the client's software as it named itself in ApiVersions, or its client id; the API; the version."""

    client: str
    api: str
    version: int


OTHERS = UnservedRequest("others", "others", -1)


@dataclass(slots=True)
class UnservedRequests:
    """The number of requests of each kind; kinds beyond `KINDS_KEPT` are counted together."""

    counts: Counter[UnservedRequest] = field(default_factory=Counter)

    def add(self, call: Call, api_key: int) -> str:
        """Counts one; returns what to log: why it is not served, or "" where that was logged before."""
        request = UnservedRequest(call.client, api_name(api_key), call.api_version)
        if request not in self.counts and len(self.counts) >= KINDS_KEPT:
            self.counts[OTHERS] += 1
            return ""
        self.counts[request] += 1
        if self.counts[request] > 1:
            return ""
        api = APIS.get(api_key)
        served = f"; served are {api.advertised.first} to {api.advertised.last}" if api else ""
        return f"{request.api} version {request.version} is not served{served} (client {request.client})"


def api_name(api_key: int) -> str:
    """Kafka's name of an API, or its key where Kafka has none of that key."""
    api = APIS.get(api_key)
    if api is not None:
        return api.name
    return UNSERVED[api_key].name if api_key in UNSERVED else f"key {api_key}"
