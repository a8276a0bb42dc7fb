"""Users and clients of stories that have ended, in the ZooKeeper of Kafka 2.6.

That version's AdminManager.handleDescribeClientQuotas reads the node of every user, one after the other, unless it is asked for
one user strictly. A removed quota or credential leaves the node, so that no request makes such a response fast again.
"""

from __future__ import annotations

from typing import Any

from coterie.certify.question import Story
from coterie.runtime.zookeeper_session import connect

_SESSION_MS, _CONNECT_MS = 30_000, 20_000
_FOLDERS = ("/config/users", "/config/clients")
_MAKING_NODES = frozenset({"AlterClientQuotas", "AlterUserScramCredentials"})


class Leftovers:
    """``client``: a kazoo client; see `leftovers_of`. `remove` may be called from any thread."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def close(self) -> None:
        """Ends the session."""
        self._client.stop()
        self._client.close()

    def remove(self, story: Story, prefix: str) -> None:
        """The nodes whose names begin with the story's ``prefix``, if it asked for any."""
        if not any(question.api in _MAKING_NODES for question in story.questions):
            return
        for folder in _FOLDERS:
            for name in self._client.get_children(folder):
                if name.startswith(prefix):
                    self._client.delete(f"{folder}/{name}", recursive=True)


def leftovers_of(zookeeper: str) -> Leftovers:
    """``zookeeper``: HOST:PORT. Raises `zookeeper_session.Unreachable`, ExtraMissing without kazoo."""
    return Leftovers(connect(zookeeper, _SESSION_MS, _CONNECT_MS))
