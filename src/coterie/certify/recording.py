"""Stories with the responses that one version of Apache Kafka gave, as data that is kept in the package.

A question may have several responses: the stories were sent several times, and where Kafka itself responded differently
(another order, a state not reached yet) each response counts. `load` reads ``recordings/VERSION.json.gz``.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from coterie.certify.question import Story
from coterie.certify.responses import Part, Tree, differences

GENERATED = "Every field of every request"
_FOLDER = "recordings"
# APIs in no story, since the certified broker must be unchanged afterwards.
NOT_ASKED = {
    "ApiVersions": "what is served is a table of its own",
    "AlterClientQuotas": "quotas of users that the broker may have",
    "AlterUserScramCredentials": "passwords of users that it may have",
    "CreateAcls": "what others may do",
    "DeleteAcls": "the same; a filter can match everything",
    "UpdateFeatures": "the whole cluster's versions",
    "UnregisterBroker": "the broker itself",
    "ElectLeaders": "every partition, where no topic is named",
    "AlterReplicaLogDirs": "the broker's folders, which have names of their own",
    "DescribeLogDirs": "the same",
    "WriteTxnMarkers": "between brokers only",
    "AlterConfigs": "the broker's own settings are among what it alters",
    "PushTelemetry": "what the broker's operators see of their clients",
    "GetTelemetrySubscriptions": "the same",
}


def story_prefix(run: str, number: int) -> str:
    """The text in place of ``$``: as long when a story is recorded as when it is replayed, since sizes are compared."""
    return f"cert-{run:.4}-{number:05d}-"


@dataclass(slots=True)
class RecordedStory:
    """``answers[n]`` are all the responses that Kafka gave to question n. ``rule`` is empty for a generated story."""

    story: Story
    rule: str = ""
    subject: str = GENERATED
    title: str = ""
    source: str = ""
    responses: list[list[Tree]] = field(default_factory=list)

    def drop_without_response(self) -> None:
        """Takes out the questions to which Kafka never responded in time."""
        responded = [n for n, responses in enumerate(self.responses) if responses]
        self.story.questions = [self.story.questions[n] for n in responded]
        self.responses = [self.responses[n] for n in responded]

    def as_json(self) -> dict[str, Any]:
        data = {"tale": self.story.as_json(), "answers": self.responses, "subject": self.subject}
        return data | {"rule": self.rule, "title": self.title, "source": self.source}

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> RecordedStory:
        return cls(
            Story.of_json(data["tale"]), data["rule"], data["subject"], data["title"], data["source"], data["answers"]
        )


@dataclass(slots=True)
class Recording:
    """The responses of one version of Kafka."""

    version: str
    stories: list[RecordedStory]

    def questions(self) -> int:
        return sum(len(story.responses) for story in self.stories)


def recorded_versions() -> list[str]:
    """The versions of Kafka of which the package has a recording, oldest first."""
    names = (entry.name for entry in resources.files("coterie.certify").joinpath(_FOLDER).iterdir())
    versions = [name.removesuffix(".json.gz") for name in names if name.endswith(".json.gz")]
    return sorted(versions, key=lambda v: [int(part) for part in v.split(".")])


def load(version: str) -> Recording:
    """Raises FileNotFoundError for a version without a recording."""
    data = resources.files("coterie.certify").joinpath(_FOLDER, f"{version}.json.gz").read_bytes()
    recording = json.loads(gzip.decompress(data))
    return Recording(recording["version"], [RecordedStory.of_json(story) for story in recording["stories"]])


# Places in responses that are not compared -> why.
NOT_COMPARED = {
    "order": "lists that Kafka keeps in hash maps have no order",
    "rack": "the operator's choice",
    "client_host": "how a broker writes an address is its own affair",
    "error_message": "a text for people, or none",
    "batch_index_error_message": "the same",
    "CreateTopics.topics[].configs": "which settings a broker has is a question of DescribeConfigs",
}


def compared_parts(api: str, one: Tree, other: Tree) -> list[Part]:
    """The differences of two responses of that API, but for `NOT_COMPARED`; error codes first, as the most telling."""
    parts = [part for part in differences(one, other) if not _is_left_out(f"{api}.{part.general()}")]
    return sorted(parts, key=lambda part: not part.path.endswith("error_code"))


def _is_left_out(path: str) -> bool:
    return path.rpartition(".")[2] in NOT_COMPARED or any(
        "[]" in name and path.startswith(name) for name in NOT_COMPARED
    )
