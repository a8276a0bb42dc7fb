"""What the members in Python share: the commands on their standard input. Of the standard library alone: another environment
runs them."""

from __future__ import annotations

import sys
import threading


class Commands:
    """``sleep S``: the next poll is S seconds late; ``callback S``: the next callback takes S seconds; ``subscribe TOPICS``."""

    def __init__(self, topics: str) -> None:
        self.topics, self.sleep_s, self.callback_s = topics, 0.0, 0.0
        threading.Thread(target=self._obey, daemon=True).start()

    def _obey(self) -> None:
        for line in sys.stdin:
            verb, word = line.split()
            if verb == "sleep":
                self.sleep_s = float(word)
            elif verb == "callback":
                self.callback_s = float(word)
            else:
                self.topics = word

    def slept_s(self) -> float:
        """How long the poll is late; counts once."""
        seconds, self.sleep_s = self.sleep_s, 0.0
        return seconds

    def called_s(self) -> float:
        """How long the callback takes; counts once."""
        seconds, self.callback_s = self.callback_s, 0.0
        return seconds
