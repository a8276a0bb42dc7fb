"""`groups history`, `why` and `watch` of a group whose broker is not coterie: from outside, and from an observer's journal."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from coterie.cli import main
from coterie.cli.groups.explainer import LOOK_S, Explainer
from coterie.cli.groups.explanation import draw
from coterie.client import GroupExplanation
from coterie.client.admin_types import GroupState
from coterie.console.terminal import drawing_console
from coterie.coordinator.journal.line import JournalLine
from coterie.observer.journal_sinks import FolderJournal
from coterie.testing import ErrorCode, simulate
from tests.cli.json_shapes import documented
from tests.observer import stories
from tests.observer.stories import GROUP, Crew


def text_of(document: GroupExplanation) -> str:
    console = drawing_console()
    with console.capture() as capture:
        console.print(draw(document, None))
    return capture.get()


def test_a_group_of_another_broker_is_described_from_outside() -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna")
        crew.settle(1)
        crew.broker.fail("ExplainGroup", ErrorCode.UNSUPPORTED_VERSION, times=10**9)
        before_s = world.now_s

        async def explained() -> list[GroupExplanation]:
            async with Explainer(GROUP, None, {"bootstrap.servers": crew.broker.bootstrap_servers}) as explainer:
                first = await explainer.explain()
                crew.join("ben")
                await stories.until_stable(crew, 2)
                return [first, await explainer.explain()]

        first, second = world.run(explained())
        assert world.now_s - before_s < LOOK_S + 60
        assert first.state == GroupState.STABLE
        assert first.verdict == "the group is stable with 1 member; nothing moved while it was watched"
        assert first.unseen is not None
        assert first.unseen.startswith("watched for 4.")
        assert [m.client_id for m in first.members] == ["anna"]
        assert len([p for p in first.partitions if p.owner is not None]) == 6
        assert first.lag is not None
        assert first.members[0].last_heard_ms is not None
        assert (first.members[0].session_left_ms, first.members[0].waits_in) == (None, None)
        assert "joined" in second.verdict
        assert second.unseen is not None
        assert "not seen from outside" in " ".join(text_of(second).split())


def observed_journal(folder: Path) -> None:
    journal = FolderJournal(folder)
    with simulate(seed=1) as world:
        for line in stories.kill(world).lines:
            journal.write(line)


def outcome(*words: str) -> str:
    done = CliRunner(env={"COTERIE_BOOTSTRAP_SERVER": "127.0.0.1:1"}).invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_journal_of_an_observer_has_the_same_words(tmp_path: Path) -> None:
    observed_journal(tmp_path)
    history = outcome("groups", "history", GROUP, "--journal", str(tmp_path))
    assert "was silent for its session timeout (inferred: silent for session)" in history
    assert outcome("groups", "history", "nobody", "--journal", str(tmp_path)) == (
        "the journal has no events of group nobody\n"
    )
    last = documented("groups history", outcome("groups", "history", GROUP, "--journal", str(tmp_path), "--json"))[-1]
    assert (last["causes"][0]["evidence"], last["causes"][0]["rule"]) == ("inferred", "silent_for_session")
    why = json.loads(outcome("groups", "why", GROUP, "--journal", str(tmp_path), "--json"))
    assert (why["state"], why["generation"], len(why["members"])) == ("Stable", 2, 2)
    assert "was silent" in why["verdict"]
    words = outcome("groups", "why", GROUP, "--journal", str(tmp_path))
    assert "the journal's last line" in words
    assert "lag unknown\n" in words
    watched = outcome("groups", "watch", GROUP, "--journal", str(tmp_path), "--times", "1", "--every", "0.1")
    assert watched.startswith("generation 2, Stable: ")


def test_a_folder_without_a_journal_is_a_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["groups", "history", "crew", "--journal", str(tmp_path)])
    assert done.exit_code == 1
    assert done.stderr == (
        f"Error: {tmp_path} has no journal: No such file or directory; `coterie observe --journal {tmp_path}` writes one\n"
    )


def test_a_damaged_line_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    journal = FolderJournal(tmp_path)
    journal.write(JournalLine(1, "crew", 1, "stable", "CompletingRebalance", "Stable"))
    with open(tmp_path / "journal.jsonl", "a") as file:
        file.write("nonsense\n")
    done = CliRunner().invoke(main, ["groups", "history", "crew", "--journal", str(tmp_path)])
    assert done.exit_code == 1
    assert "stable" in done.stdout
    assert "line 2 of" in done.stderr
