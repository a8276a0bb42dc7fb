"""Every example in a docstring of the public clients runs and prints what it states (tests/client/docstring_examples)."""

from __future__ import annotations

import pytest

import coterie.client
import coterie.client.blocking
from coterie.client import Admin
from coterie.client.admin_each import Each
from tests.client.docstring_examples import Documented, documented, failures, of_class

EACH = list(of_class(Each, coterie.client, "coterie.client.Admin.each"))
WITH_EXAMPLES = [
    item for item in [*documented(coterie.client), *documented(coterie.client.blocking), *EACH] if ">>>" in item.text
]


@pytest.mark.parametrize("item", WITH_EXAMPLES, ids=lambda item: item.name)
def test_the_examples_of(item: Documented) -> None:
    assert failures(item) == []


@pytest.mark.parametrize("item", [*of_class(Admin, coterie.client, "Admin"), *EACH], ids=lambda item: item.name)
def test_every_public_method_of_the_admin_is_documented(item: Documented) -> None:
    assert item.text or item.name.endswith(".__init__"), "the shapes, units and errors of this method"


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
