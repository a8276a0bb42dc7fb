"""The principal of a connection, as Kafka's KafkaPrincipal: a type, which is nearly always User, and a name."""

from __future__ import annotations

from dataclasses import dataclass

USER = "User"


@dataclass(frozen=True, slots=True)
class Principal:
    """Compared by type and name; ``text`` is how ACLs, super.users and log lines name it."""

    type: str
    name: str

    @property
    def text(self) -> str:
        """TYPE:NAME."""
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")  # of a connection without authentication
