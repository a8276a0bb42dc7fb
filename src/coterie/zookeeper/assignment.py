"""The assignment: a topic's partitions over all threads of all members with that topic (Kafka 0.8's RangeAssignor).

Partitions by number, threads by name; partitions / threads each, the remainder one each to the first threads. Every
member computes it for itself, out of what it read: they agree when they read the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence


def threads_of(consumer_id: str, count: int) -> list[str]:
    """A consumer's threads, by name."""
    return [f"{consumer_id}-{number}" for number in range(count)]


def threads_by_topic(subscriptions: Mapping[str, Mapping[str, int]]) -> dict[str, list[str]]:
    """Consumer id -> (topic -> threads), turned round: topic -> all threads that read it, in order."""
    by_topic: dict[str, list[str]] = {}
    for consumer_id, threads in subscriptions.items():
        for topic, count in threads.items():
            by_topic.setdefault(topic, []).extend(threads_of(consumer_id, count))
    for topic_threads in by_topic.values():
        topic_threads.sort()
    return by_topic


def share(partitions: Sequence[int], threads: Sequence[str], thread: str) -> Sequence[int]:
    """The share of one of a topic's sorted threads in its sorted partitions; empty if it is not among them."""
    index = bisect_left(threads, thread)
    if index == len(threads) or threads[index] != thread:
        return ()
    each, more = divmod(len(partitions), len(threads))
    begin = each * index + min(index, more)
    return partitions[begin : begin + each + (index < more)]
