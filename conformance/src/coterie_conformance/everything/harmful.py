"""Questions that one version of Kafka is not asked, since it would answer other stories otherwise from then on."""

from __future__ import annotations

from collections.abc import Callable

from coterie.certify.question import Question, Story, Value
from coterie_conformance.differences.of_versions import THREE
from coterie_conformance.differences.row import Version


def _makes_a_negative_partition(question: Question) -> bool:
    """A topic that 2.6 makes with a partition below 0: it adds up the others, and looks no further."""
    if question.body.get("validate_only"):
        return False
    assigned = (topic.get("assignments") or [] for topic in question.body.get("topics") or [])
    return any(_counts_as_consecutive({each.get("partition_index", 0) for each in topic}) for topic in assigned)


def _counts_as_consecutive(partitions: set[Value]) -> bool:
    count = len(partitions)
    return any(p < 0 for p in partitions) and sum(p for p in partitions if p >= 0) == count * (count - 1) // 2


# (api, what is not asked) -> why, the first version that may be asked, and what recognises it.
HARMFUL: dict[tuple[str, str], tuple[str, Version, Callable[[Question], bool]]] = {
    ("CreateTopics", "a partition below 0 among assigned ones that add up to consecutive ones"): (
        "2.6 makes it, cannot read the name of its folder, and leaves other stories' new partitions without a leader",
        THREE,
        _makes_a_negative_partition,
    ),
}


def spared(story: Story, version: Version) -> Story:
    """The story without what would harm others on that version of Kafka."""
    kept = [question for question in story.questions if not _harms(question, version)]
    return Story(story.name, kept, story.strict)


def _harms(question: Question, version: Version) -> bool:
    harms = (
        recognises for (api, _), (_, before, recognises) in HARMFUL.items() if api == question.api and version < before
    )
    return any(recognises(question) for recognises in harms)
