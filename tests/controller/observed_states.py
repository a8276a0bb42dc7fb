"""The states of Kafka's ReplicaStateMachine, as the steps and the traces of a cluster's scenario show them."""

from __future__ import annotations

import re
from collections.abc import Iterable

Replica = tuple[str, int]  # ("t-0", 2)
Transition = tuple[str, str]

NONEXISTENT, NEW, ONLINE, OFFLINE = "NonexistentReplica", "NewReplica", "OnlineReplica", "OfflineReplica"
STARTED, SUCCESSFUL = "ReplicaDeletionStarted", "ReplicaDeletionSuccessful"
INELIGIBLE = "ReplicaDeletionIneligible"
# A state and those before it, as in Kafka 2.6; every other transition is invalid.
PREVIOUS = {
    NONEXISTENT: {SUCCESSFUL},
    NEW: {NONEXISTENT},
    ONLINE: {NEW, ONLINE, OFFLINE, INELIGIBLE},
    OFFLINE: {NEW, ONLINE, OFFLINE, INELIGIBLE},
    STARTED: {OFFLINE},
    SUCCESSFUL: {STARTED},
    INELIGIBLE: {OFFLINE, STARTED},
}
_REQUEST = re.compile(r"\s+\d+ -> ([\d,]+): (LeaderAndIsr|StopReplica) (.+)")
_ASSIGNMENT = re.compile(r'\s+\d+: write /brokers/topics/(\w+) (\{"partitions".+)')
_PARTITION = re.compile(r'"(\d+)":\[([\d,]*)\]')


class ObservedReplicas:
    """Feed it the lines of a scenario in order. ``transitions``: with their replicas."""

    def __init__(self) -> None:
        self.states: dict[Replica, str] = {}
        self.transitions: list[tuple[Replica, Transition]] = []
        self.live: set[int] = set()
        self._deleted: set[str] = set()  # topics
        self._lost: set[Replica] = set()  # in a log directory that has failed
        self._without_role: set[Replica] = set()  # since their partitions were added

    def line(self, line: str) -> None:
        if not line.startswith((" ", "#")):
            self._step(line.split() or [""])
        elif request := _REQUEST.fullmatch(line):
            for broker in map(int, request[1].split(",")):
                for part in re.split(r", (?=\w+-\d+ )", request[3]):
                    self._requested(request[2], (part.split()[0], broker), part.split())
        elif assignment := _ASSIGNMENT.fullmatch(line):
            self._assigned(assignment[1], assignment[2])
        elif ": delete /brokers/topics/" in line and line.count("/") == 3:
            topic = line.rpartition("/")[2]
            self._deleted.discard(topic)
            self._move(self._of_topic(topic), NONEXISTENT)
        elif ": in office" in line:
            self._take_office()

    def _move(self, replicas: Iterable[Replica], state: str) -> None:
        for replica in list(replicas):
            self.transitions.append((replica, (self.states.get(replica, NONEXISTENT), state)))
            self.states[replica] = state
            if state == NONEXISTENT:
                del self.states[replica]

    def _of_topic(self, topic: str) -> list[Replica]:
        return [replica for replica in self.states if replica[0].rpartition("-")[0] == topic]

    def _is_deleted(self, replica: Replica) -> bool:
        return replica[0].rpartition("-")[0] in self._deleted

    # -- what the controller requests and writes ------------------------------------------------------------------------

    def _requested(self, api: str, replica: Replica, words: list[str]) -> None:
        """In Kafka the first request to a replica of a new partition is its partition's transition. The replica may have been
        offline since."""
        if api == "StopReplica":
            self._move([replica], STARTED if words[-1] == "delete" else OFFLINE)
            return
        is_first = replica in self._without_role
        self._without_role.discard(replica)
        if words[-1] == "new" and self.states.get(replica) != NEW and not is_first:
            self._move([replica], NEW)
        self._move([replica], ONLINE)

    def _assigned(self, topic: str, text: str) -> None:
        """A reassignment's. In Kafka's the replicas that it stops count as deleted, whatever their brokers respond."""
        kept = text.partition('"adding_replicas"')[0].partition('"removing_replicas"')[0]
        assigned = {(f"{topic}-{p}", int(r)) for p, ids in _PARTITION.findall(kept) for r in ids.split(",") if r}
        for replica in self._of_topic(topic):
            if replica not in assigned:
                if self.states[replica] in (STARTED, INELIGIBLE) or replica[1] not in self.live:
                    self.states[replica] = SUCCESSFUL
                self._move([replica], NONEXISTENT)
        self._move(sorted(assigned - set(self.states)), NEW)

    def _take_office(self) -> None:
        """A new controller reads the replicas; it has no states of before."""
        self._lost = set()
        for replica in [replica for replica, state in self.states.items() if state != NEW]:
            offline = INELIGIBLE if self._is_deleted(replica) else OFFLINE
            self.states[replica] = ONLINE if replica[1] in self.live else offline

    # -- what happens to it ---------------------------------------------------------------------------------------------

    def _step(self, words: list[str]) -> None:
        brokers = {int(word) for word in words[1:] if word.isdigit()}
        match words[0]:
            case "broker":
                self.live |= brokers
            case "kill" | "bounce":
                self.live -= brokers
                self._lost = {replica for replica in self._lost if replica[1] not in brokers}
                self._fail([replica for replica in self.states if replica[1] in brokers])
                self.live |= brokers if words[0] == "bounce" else set()
            case "roles" if "former" not in words:
                self._respond(brokers, dict(word.split("=") for word in words[2:]))
            case "topic":
                self._add(words[1], words[2:])
            case "delete":
                topic = words[1]
                self._deleted |= {topic} if self._of_topic(topic) else set()
                self._fail([r for r in self._of_topic(topic) if r[1] not in self.live or r in self._lost])
            case "answer" if "kept" not in words:
                stopped = [r for r, state in self.states.items() if r[1] in brokers and state == STARTED]
                self._move(stopped, SUCCESSFUL if len(words) == 2 else INELIGIBLE)

    def _respond(self, brokers: set[int], errors: dict[str, str]) -> None:
        """To LeaderAndIsr; ``errors`` of partitions."""
        replicas = [replica for replica in self.states if replica[1] in brokers]
        lost = [replica for replica in replicas if errors.get(replica[0]) == "KAFKA_STORAGE_ERROR"]
        self._lost -= {replica for replica in replicas if replica[0] not in errors}
        self._fail([replica for replica in lost if replica not in self._lost])
        self._lost.update(lost)

    def _add(self, topic: str, words: list[str]) -> None:
        known = {replica[0] for replica in self._of_topic(topic)}
        for word in words if topic not in self._deleted else []:
            number, _, replicas = word.partition("=")
            if f"{topic}-{number}" not in known:
                new = [(f"{topic}-{number}", int(r)) for r in replicas.split(",")]
                self._without_role.update(new)
                self._move(new, NEW)

    def _fail(self, replicas: list[Replica]) -> None:
        """Their brokers, or the log directories, are down."""
        for replica in replicas:
            if self.states[replica] in (NEW, ONLINE):
                self._move([replica], OFFLINE)
            if self._is_deleted(replica) and self.states[replica] in (OFFLINE, STARTED):
                self._move([replica], INELIGIBLE)
