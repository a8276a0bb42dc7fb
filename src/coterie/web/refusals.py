"""What is refused, as the pages show it: `error`, in English, and `error_phrase`, its data."""

from __future__ import annotations

from typing import Any

from coterie.client import KafkaError
from coterie.text.phrase import Phrase, PhrasedError, phrase_fields


def refusal(error: PhrasedError | KafkaError) -> dict[str, Any]:
    """The document of a refusal."""
    return phrase_fields("error", error.phrase if isinstance(error, PhrasedError) else of_kafka(error))


def of_kafka(error: KafkaError) -> Phrase:
    """A refusal of the cluster, which has Kafka's name and English."""
    return Phrase("of_kafka", {"error": str(error)})
