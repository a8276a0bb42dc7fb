"""Groups for the assignors' tests, written short: members by name, partitions as "t1-0 t1-2"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from coterie.assignors import AssignableTopics, Assignment, Subscriber, assign_cooperative_sticky
from coterie.assignors.sticky import encode_sticky_user_data

Assign = Callable[[AssignableTopics, list[Subscriber]], Assignment]


def partitions(text: str) -> dict[str, list[int]]:
    """What "t1-0 t1-2" names, by topic."""
    by_topic: dict[str, list[int]] = {}
    for item in text.split():
        topic, _, number = item.rpartition("-")
        by_topic.setdefault(topic, []).append(int(number))
    return by_topic


def member(
    name: str,
    topics: str,
    owned: str | Mapping[str, list[int]] = "",
    generation: int = -1,
    *,
    instance: str | None = None,
    rack: str | None = None,
) -> Subscriber:
    """A member that owned these partitions, said both as sticky and as cooperative sticky members say it."""
    had = partitions(owned) if isinstance(owned, str) else owned
    data = encode_sticky_user_data(had, generation)
    return Subscriber(name, frozenset(topics.split()), instance, had, generation, rack, data)


def again(assignment: Assignment, members: list[Subscriber], generation: int) -> list[Subscriber]:
    """These members with what the assignment gave them as owned."""
    owned = {m.member_id: assignment.get(m.member_id, {}) for m in members}
    return [
        replace(
            m,
            owned=owned[m.member_id],
            generation=generation,
            user_data=encode_sticky_user_data(owned[m.member_id], generation),
        )
        for m in members
    ]


def shown(assignment: Assignment) -> dict[str, str]:
    return {m: " ".join(f"{t}-{p}" for t in sorted(owned) for p in owned[t]) for m, owned in assignment.items()}


def sizes(assignment: Assignment) -> dict[str, int]:
    return {m: sum(map(len, owned.values())) for m, owned in assignment.items()}


def settle(assign: Assign, topics: AssignableTopics, members: list[Subscriber]) -> Assignment:
    """The assignment once nothing is revoked any more: at most 4 repetitions, in none of which a partition is given to
    one member while another is only just giving it up."""
    given = assign(topics, members)
    generation = max((m.generation for m in members), default=0)
    for _ in range(4):
        check_valid(topics, members, given)
        holders = {(t, p): m.member_id for m in members for t, ps in m.owned.items() for p in ps}
        revoked = 0
        for one in members:
            has = {(t, p) for t, ps in given[one.member_id].items() for p in ps}
            had = {(t, p) for t, ps in one.owned.items() for p in ps}
            revoked += len(had - has)
            if assign is assign_cooperative_sticky:
                assert all(holders.get(partition, one.member_id) == one.member_id for partition in has - had)
        if not revoked:
            check_full(topics, members, given)
            return given
        generation += 1
        members = again(given, members, generation)
        given = assign(topics, members)
    raise AssertionError("still revoking after 4 repetitions")


def check_valid(topics: AssignableTopics, members: list[Subscriber], given: Assignment) -> None:
    """Every partition at most once, to a subscriber; every member has an entry."""
    assert set(given) == {m.member_id for m in members}
    owners: dict[tuple[str, int], str] = {}
    for one in members:
        for topic, numbers in given[one.member_id].items():
            assert topic in one.topics
            assert numbers == sorted(set(numbers))
            assert numbers
            assert numbers[-1] < topics.counts[topic]
            for number in numbers:
                assert owners.setdefault((topic, number), one.member_id) == one.member_id


def check_full(topics: AssignableTopics, members: list[Subscriber], given: Assignment) -> None:
    """Valid, nothing left over, and balanced: no partition could go from one to another that has two fewer."""
    check_valid(topics, members, given)
    subscribed = {t for m in members for t in m.topics}
    total = sum(n for t, n in topics.counts.items() if t in subscribed)
    counts = sizes(given)
    assert sum(counts.values()) == total
    for giver in members:
        for taker in members:
            if counts[giver.member_id] - counts[taker.member_id] >= 2:
                assert not set(given[giver.member_id]) & taker.topics, (
                    f"{giver.member_id} could give to {taker.member_id}"
                )


def lost(before: Assignment, after: Assignment, members: list[Subscriber], topics: AssignableTopics) -> int:
    """Partitions that somebody who is still there has no more."""
    count = 0
    for one in members:
        for topic, numbers in before.get(one.member_id, {}).items():
            if topic in one.topics:
                live = [p for p in numbers if p < topics.counts.get(topic, 0)]
                count += len(set(live) - set(after[one.member_id].get(topic, ())))
    return count
