"""Every example in a docstring of the public clients runs and prints what it states (tests/client/docstring_examples)."""

from __future__ import annotations

import pytest

import coterie.client
import coterie.client.blocking
import coterie.testing
from coterie.client import Admin
from coterie.client.admin.each import Each
from tests.client.docstring_examples import Documented, documented, failures, of_class

EACH = list(of_class(Each, coterie.client, "coterie.client.Admin.each"))
PACKAGES = (coterie.client, coterie.client.blocking, coterie.testing)
WITH_EXAMPLES = [item for package in PACKAGES for item in documented(package) if ">>>" in item.text]
WITH_EXAMPLES += [item for item in EACH if ">>>" in item.text]


@pytest.mark.parametrize("item", WITH_EXAMPLES, ids=lambda item: item.name)
def test_the_examples_of(item: Documented) -> None:
    assert failures(item) == []


def test_every_public_class_and_method_is_documented() -> None:
    items = [item for package in PACKAGES for item in documented(package)] + EACH
    assert len(items) > 250
    # The protocols `Serializer` and `Deserializer` have the texts.
    by_its_class = (".__init__", ".serialize", ".deserialize")
    assert [item.name for item in items if not item.text and not item.name.endswith(by_its_class)] == []


def test_the_first_example_is_among_them() -> None:
    assert "coterie.client.Admin.create_topic" in {item.name for item in WITH_EXAMPLES}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            ">>> await admin.partitions(['orders'])\n[]\n",
            "printed:\n[TopicPartition(topic='orders', partition=0),",
        ),
        (">>> await admin.partition(['orders'])\n", "AttributeError"),
        (">>> await admin.delete_topic('none')\n", "UNKNOWN_TOPIC_OR_PARTITION"),
        (">>> await admin.delete_topic('none')\nTraceback (most recent call last):\nValueError: no\n", "UNKNOWN_TOPIC"),
        (">>> len(broker.committed('billing'))\nTraceback (most recent call last):\nValueError: no\n", "printed:\n1"),
    ],
)
def test_an_example_that_states_something_else_is_a_failure(text: str, problem: str) -> None:
    (failure,) = failures(Documented("example", text, coterie.client, Admin))
    assert problem in failure


def test_names_stay_from_one_example_to_the_next_and_errors_may_be_stated() -> None:
    text = """
    >>> topics = await admin.partitions(["orders"])
    >>> for name, partition in topics:
    ...     print(name, partition)
    orders 0
    orders 1
    >>> await admin.delete_topic("none")
    Traceback (most recent call last):
        ...
    coterie.client...: UNKNOWN_TOPIC_OR_PARTITION: ...
    """
    assert failures(Documented("example", text, coterie.client, Admin)) == []
