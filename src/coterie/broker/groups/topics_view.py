"""The broker's topics as the coordinator of groups reads them: one image, made again after a change; and the internal topics of
streams groups that are being created, with why the last attempt at one failed."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from coterie.broker.process.patterns import BadPattern, matcher
from coterie.broker.process.scheduling import Clock
from coterie.broker.storage.topics import Topics
from coterie.coordinator.consumer.image import TopicImage, TopicsImage

NAMES_A_STEP = 1_000


class TopicsView:
    """The image of the topics. Its versions are times in ms: they are kept in records and must rise over a restart."""

    def __init__(self, topics: Topics, clock: Clock) -> None:
        self._topics, self._clock = topics, clock
        self._image: TopicsImage | None = None
        self._changes = -1

    def image(self) -> TopicsImage:
        """The topics as they are now; the same object until one is created, extended or deleted."""
        if self._image is None or self._changes != self._topics.changes:
            self._image, self._changes = self._made(self._image), self._topics.changes
        return self._image

    def _made(self, before: TopicsImage | None) -> TopicsImage:
        known = before.topics if before is not None else {}
        images: dict[str, TopicImage] = {}
        created = before is None
        for name, topic in self._topics.by_name.items():
            image, count = known.get(name), len(topic.partitions)
            if image is None or image.topic_id != topic.topic_id:
                created = True
                image = TopicImage(name, topic.topic_id, count)
            images[name] = image if image.partitions == count else TopicImage(name, topic.topic_id, count)
        version = max(self._clock.now_ms(), before.version + 1 if before is not None else 0)
        return TopicsImage(images, version, version if created or before is None else before.created_version)


def resolving(patterns: Iterable[str], image: TopicsImage) -> Generator[None, None, dict[str, frozenset[str]]]:
    """The topics that each pattern names as a whole, some names at each step; a pattern that cannot be read names none."""
    matches, topics = {}, dict[str, set[str]]()
    for pattern in patterns:
        topics[pattern] = set()
        try:
            matches[pattern] = matcher(pattern)
        except BadPattern:
            continue
    for number, name in enumerate(image.topics, 1):
        for pattern, is_match in matches.items():
            if is_match(name):
                topics[pattern].add(name)
        if number % NAMES_A_STEP == 0:
            yield
    return {pattern: frozenset(names) for pattern, names in topics.items()}


class TopicCreations:
    """Each heartbeat requests them again: one attempt at a time, and its error is in the next response."""

    KEPT = 10_000  # errors

    def __init__(self) -> None:
        self._running: set[str] = set()
        self._errors: dict[str, str] = {}

    def begin(self, name: str) -> bool:
        """Whether an attempt is to begin: none is under way."""
        if name in self._running:
            return False
        self._running.add(name)
        return True

    def ended(self, name: str, error: str) -> None:
        """The attempt has ended, with an error or ""."""
        self._running.discard(name)
        self._errors.pop(name, None)
        if error and len(self._errors) < self.KEPT:
            self._errors[name] = error

    def of(self, names: Iterable[str]) -> dict[str, str]:
        """The errors of these topics."""
        return {name: self._errors[name] for name in names if name in self._errors}
