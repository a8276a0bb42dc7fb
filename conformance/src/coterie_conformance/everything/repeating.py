"""A Produce that is asked again for the sake of some partitions: the others have their records already."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coterie.certify.question import Question
from coterie.certify.responses import Tree


def left_to_ask(question: Question, response: Tree) -> Question:
    """The question less the partitions of a Produce that the response has accepted; the question itself of another API, and
    where nothing was accepted or nothing is left."""
    accepted = _accepted(response) if question.api == "Produce" else set()
    left = [
        topic | {"partition_data": [p for p in parts if (topic.get("name"), p.get("index", 0)) not in accepted]}
        for topic in question.body.get("topic_data") or []
        if (parts := topic.get("partition_data") or [])
    ]
    left = [topic for topic in left if topic["partition_data"]]
    return replace(question, body=question.body | {"topic_data": left}) if accepted and left else question


def merged(before: Tree, after: Tree) -> Tree:
    """The response ``after`` with the accepted partitions of the one ``before``, whose order is kept."""
    accepted = _accepted(before)
    if not accepted or not isinstance(after, dict):
        return after
    again = {(t["name"], p["index"]): p for t in after["responses"] for p in t["partition_responses"]}
    topics = []
    for topic in before["responses"]:
        parts = [again.get((topic["name"], part["index"]), part) for part in topic["partition_responses"]]
        topics.append(topic | {"partition_responses": parts})
    return after | {"responses": topics}


def _accepted(response: Tree) -> set[tuple[Any, int]]:
    """Name and partition of each that a Produce's response has without an error; of one that names topics by their ids none."""
    topics = response.get("responses") or [] if isinstance(response, dict) else []
    parts = [(t["name"], p) for t in topics if "name" in t for p in t.get("partition_responses") or []]
    return {(name, part["index"]) for name, part in parts if part["error_code"] == "NONE"}
