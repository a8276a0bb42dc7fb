"""Characters in names from outside that a terminal obeys or that no reader sees: each is shown as its escape, `\\x1b`."""

from __future__ import annotations

import re

# C0, DEL, C1; characters without width, marks, embeddings, overrides and isolates of writing direction; line and paragraph
# separators; and what is no character at all: surrogates, which no encoding can write, and the last two, which XML forbids.
# Within brackets; Python's `re` and JavaScript read it alike.
HIDDEN = r"\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufffe\uffff"
_HIDDEN, _HIDDEN_BUT_BREAKS = f"[{HIDDEN}]", f"(?![\n\t])[{HIDDEN}]"


def visible(text: str, *, breaks: bool = False) -> str:
    """The text with its hidden characters as escapes. ``breaks``: line breaks and tabs stay as they are."""
    if text.isascii() and text.isprintable():  # most lines; and a broker's start compiles no pattern
        return text
    return re.sub(_HIDDEN_BUT_BREAKS if breaks else _HIDDEN, _escape, text)


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")
