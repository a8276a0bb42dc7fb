"""What an application did with the lines that it was given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApplicationVerdict:
    """``strikes`` are who was killed, in order; ``sent`` counts lines; ``wrong`` is empty where all is right."""

    strikes: tuple[str, ...]
    sent: int
    wrong: tuple[str, ...]
