"""What the controller knows of a topic's own settings, which are read as everywhere else."""

from __future__ import annotations

import pytest

from coterie.controller.elected.view import ControllerConfig, ControllerView


@pytest.mark.parametrize(
    ("own", "expected"), [(None, 3), ("2", 2), (" 2 ", 2), ("+2", 2), ("many", 3), ("", 3), ("99999999999", 3)]
)
def test_min_insync_replicas_of_a_topic(own: str | None, expected: int) -> None:
    view = ControllerView(ControllerConfig(1, "", min_insync_replicas=3))
    view.topic_configs["t"] = {} if own is None else {"min.insync.replicas": own}
    assert view.min_insync_replicas("t") == expected


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize(("own", "expected"), [(" TRUE ", True), ("false", False), ("yes", False), ("", False)])
def test_unclean_leader_election_of_a_topic(own: str, default: bool, expected: bool) -> None:
    """testTopicUncleanLeaderElectionInvalidConfig: a value that cannot be read elects nobody."""
    view = ControllerView(ControllerConfig(1, "", unclean_leader_election_enable=default))
    assert view.unclean_leader_election_enable("t") == default
    view.topic_configs["t"] = {"unclean.leader.election.enable": own}
    assert view.unclean_leader_election_enable("t") == expected
