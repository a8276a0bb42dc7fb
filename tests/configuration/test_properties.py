"""Properties files beside java.util.Properties of Java 17."""

from __future__ import annotations

import re

from coterie.broker.settings import SettingError, read_properties
from tests.configuration.java import Response, recorded


def ours(text: str) -> Response:
    try:
        properties = read_properties(text)
    except SettingError:
        return None
    return [part for pair in sorted(properties.items()) for part in pair]


# Java makes a property with an empty name of a line that is a backslash alone, and takes one before a comment for nothing.
BACKSLASH_ALONE = re.compile(r"(?:^|[\r\n])[ \t\f]*\\(?:[\r\n]|$)")


def test_properties_files_are_read_as_java_reads_them() -> None:
    different = [(text, ours(text), theirs) for _, text, theirs in recorded("properties") if ours(text) != theirs]
    assert not [row for row in different if not BACKSLASH_ALONE.search(row[0])]
    assert len(different) < len(recorded("properties")) / 20
