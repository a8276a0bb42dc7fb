"""Numbers with their nouns: the one way in which a text counts things."""

from __future__ import annotations


def quantity(number: int, noun: str, plural: str = "") -> str:
    """``1 member``, ``0 members``, ``12,000 records``; ``plural``: where it is another word than the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
