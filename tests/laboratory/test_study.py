"""The study on a small grid: what its sentences claim holds, its page can be made again, and it is the one in docs."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import pytest
from click import UsageError

from coterie.cli import main
from coterie.cli.lab.study import REAL, RESULTS, RowFile, simulated_again, write_page
from coterie.console import study_answers
from coterie.console.growth_chart import Growth, growth_chart
from coterie.console.study_page import TITLES, RealPoint
from coterie.laboratory.churn import read_trace
from coterie.laboratory.study import questions as q
from coterie.laboratory.study import workload as w
from coterie.laboratory.study.group import StudySetting
from coterie.laboratory.study.run import Measures, run
from coterie.laboratory.study.spread import Cell, Study, run_job, summarise
from coterie.machines.ownership import OwnershipMeter

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
MEMBERS, PARTITIONS = 6, 24
KAFKA = (q.EAGER, q.COOPERATIVE, q.CONSUMER)


@cache
def measured(setting: StudySetting, plan: w.Plan, seed: int) -> Measures:
    """Without the laboratory's checks, which change no figure (a test below) and cost a third."""
    return run(setting, plan, seed, checks=False)


def mean(setting: StudySetting, plan: w.Plan, measure: str, seeds: int = 3) -> float:
    return sum(getattr(measured(setting, plan, seed), measure) for seed in range(seeds)) / seeds


def test_a_run_depends_on_its_seed_and_on_nothing_else() -> None:
    plan = w.rolling_restart(MEMBERS, PARTITIONS)
    for setting in q.EVERY:
        first, again, other = (asdict(run(setting, plan, seed)) for seed in (1, 1, 2))
        assert first == again
        assert first != other


@pytest.mark.parametrize("setting", q.EVERY, ids=lambda s: s.name)
def test_every_protocol_comes_to_rest_after_everything(setting: StudySetting) -> None:
    """Whatever happens, in the end each partition has one reader: the longest that one was without is bounded."""
    plans = [
        w.one_joins(MEMBERS, PARTITIONS),
        w.one_departs(MEMBERS, PARTITIONS, "vanish"),
        w.rolling_restart(MEMBERS, PARTITIONS, "kill", gap_ms=90_000),
        w.deployment(MEMBERS, PARTITIONS),
        w.one_held_up(MEMBERS, PARTITIONS, "pause", 70_000),
        w.unheard_join(MEMBERS, PARTITIONS),
        w.crashes(MEMBERS, PARTITIONS, 0.5, 12, 1),
    ]
    for plan in plans:
        result = run(setting, plan, 4)
        assert result.formed == 1
        assert result.gave_up == 0
        assert result.longest_unowned_s < 140, plan.events[:3]


def test_a_cooperative_group_goes_on_reading() -> None:
    plan = w.one_joins(12, 48)
    eager, cooperative, zookeeper, rocketmq = (
        run(s, plan, 1) for s in (q.EAGER, q.COOPERATIVE, q.ZOOKEEPER, q.ROCKETMQ)
    )
    assert (eager.paused_members, cooperative.paused_members, zookeeper.paused_members) == (12, 0, 12)
    assert rocketmq.paused_members == 0
    assert rocketmq.unowned_s < cooperative.unowned_s < eager.unowned_s
    assert (eager.rebalances, cooperative.rebalances, zookeeper.rebalances) == (1, 2, 13), "the herd: everyone, once"


def test_no_member_of_the_consumer_protocol_waits_for_another() -> None:
    """Each takes its step with its own heartbeat: one target assignment, nobody pauses, and only what moves is unowned."""
    plan = w.one_joins(12, 48)
    consumer, cooperative = run(q.CONSUMER, plan, 1), run(q.COOPERATIVE, plan, 1)
    assert (consumer.rebalances, consumer.paused_members, consumer.moved, consumer.duplicates) == (1, 0, 3, 0)
    assert consumer.messages < cooperative.messages, "no JoinGroup, no SyncGroup"
    assert consumer.agree_s < 2 * q.CONSUMER.heartbeat_interval_ms / 1000


def test_a_streams_group_without_state_moves_as_little_as_the_consumer_protocol() -> None:
    """The broker assigns in both: one target, nobody pauses, and a crash is known by the session."""
    joins, killed, restart = w.one_joins(12, 48), w.one_departs(12, 48, "kill"), w.rolling_restart(12, 48)
    for plan in (joins, restart):
        streams, consumer = run(q.STREAMS, plan, 1), run(q.CONSUMER, plan, 1)
        assert (streams.rebalances, streams.paused_members, streams.moved, streams.duplicates, streams.doubled_s) == (
            consumer.rebalances,
            consumer.paused_members,
            consumer.moved,
            0,
            0,
        )
        assert streams.agree_s < 2 * q.STREAMS.heartbeat_interval_ms / 1000
    lost = run(q.STREAMS, killed, 1)
    assert 40 < lost.longest_unowned_s < 55
    assert lost.duplicates > 0
    assert lost.false_alarms == 0


def test_each_response_has_a_size_of_its_own() -> None:
    """The first member of a group commits all of its partitions, later ones a part: their responses are not as long."""
    plan = w.one_joins(10, 300)
    assert mean(q.CONSUMER, plan, "kilobytes", 1) < 1.2 * mean(q.EAGER, plan, "kilobytes", 1)


def test_a_death_is_known_by_what_each_protocol_looks_at() -> None:
    killed, lost = (w.one_departs(MEMBERS, PARTITIONS, kind) for kind in ("kill", "vanish"))
    seconds = {s.name: mean(s, killed, "longest_unowned_s") for s in (q.EAGER, q.ZOOKEEPER, q.ROCKETMQ, q.ORDERLY)}
    assert seconds["RocketMQ"] < 1 < 4 < seconds["ZooKeeper"] < 9
    assert 40 < seconds["eager"] < 52
    assert 40 < mean(q.CONSUMER, killed, "longest_unowned_s") < 55, "and the heartbeats of those who take over"
    assert 35 < seconds["RocketMQ, orderly"] < 62, "the dead one's locks"
    assert 85 < mean(q.ROCKETMQ, lost, "longest_unowned_s") < 131, "nobody closed the connection"
    assert mean(q.EAGER, lost, "longest_unowned_s") == pytest.approx(seconds["eager"])


def test_static_members_restart_without_a_rebalance() -> None:
    plan = w.rolling_restart(MEMBERS, PARTITIONS)
    static, consumer, dynamic = (run(s, plan, 2) for s in (q.STATIC, q.STATIC_CONSUMER, q.EAGER))
    assert (static.rebalances, static.moved, static.paused_members) == (0, 0, 0)
    assert (consumer.rebalances, consumer.moved, consumer.paused_members) == (0, 0, 0)
    assert dynamic.rebalances == 2 * MEMBERS
    assert run(q.STATIC, w.one_departs(MEMBERS, PARTITIONS, "leave"), 2).longest_unowned_s > 40


def test_the_duplicate_windows() -> None:
    """Kafka's: what was read since the last commit, when somebody dies. RocketMQ's: while two views differ."""
    unheard = w.unheard_join(MEMBERS, PARTITIONS)
    assert [mean(s, unheard, "duplicates") for s in (*KAFKA, q.ORDERLY)] == [0] * 4
    assert mean(q.ROCKETMQ, unheard, "duplicates", 5) > 0
    assert mean(q.ROCKETMQ, unheard, "doubled_s", 5) > 0
    restart = w.rolling_restart(MEMBERS, PARTITIONS)
    assert [mean(s, restart, "duplicates") for s in (*KAFKA, q.ORDERLY)] == [0] * 4
    assert mean(q.ROCKETMQ, restart, "duplicates") > 0
    killed = w.one_departs(MEMBERS, PARTITIONS, "kill")
    assert all(mean(s, killed, "duplicates") > 0 for s in (*KAFKA, q.ZOOKEEPER, q.ROCKETMQ))


@pytest.mark.parametrize("setting", KAFKA, ids=lambda s: s.name)
def test_a_commit_is_waited_for_before_partitions_are_given_up(setting: StudySetting) -> None:
    """By each member that revokes or closes, on a network that takes seconds: the next owner begins where it ended."""
    slow = replace(setting, network_ms=(100, 1_500))
    for plan in (w.one_joins(MEMBERS, PARTITIONS), w.rolling_restart(MEMBERS, PARTITIONS)):
        assert mean(slow, plan, "duplicates") == 0


def test_a_process_starts_again_only_when_the_former_one_has_ended() -> None:
    """Its close takes longer than the restart was planned to."""
    slow = replace(q.STATIC, network_ms=(300, 400))
    restarted = run(slow, w.rolling_restart(MEMBERS, PARTITIONS, down_ms=100), 1)
    assert (restarted.rebalances, restarted.changes) == (0, 2 * MEMBERS)
    assert restarted.longest_unowned_s < 5


def test_a_cooperative_member_cannot_commit_while_its_group_rebalances() -> None:
    """It reads on meanwhile; where the rebalance waits for a departed member whose LeaveGroup was lost, for 45 s. An eager
    member has committed and revoked everything before it joins."""
    plan = w.rolling_restart(MEMBERS, PARTITIONS)
    eager, cooperative = (mean(replace(s, lossy=0.05), plan, "duplicates", 2) for s in (q.EAGER, q.COOPERATIVE))
    assert eager == 0
    assert cooperative > 5_000


def test_cut_off_from_zookeeper_a_consumer_reads_on() -> None:
    """Split brain: its session is over and it cannot know; of Kafka's members none can."""
    plan = w.one_held_up(MEMBERS, PARTITIONS, "cut", 60_000)
    assert mean(q.ZOOKEEPER, plan, "doubled_s") > 5
    assert mean(q.EAGER, plan, "doubled_s") < 1


def test_member_ids_keep_ghosts_out() -> None:
    plan = w.deployment(12, 48)
    bare, ids, delayed = (replace(s, lossy=0.1) for s in q.LADDER[:3])
    assert mean(bare, plan, "false_alarms", 12) > 0.5
    assert mean(ids, plan, "false_alarms", 12) < 0.2
    assert mean(delayed, plan, "rebalances", 12) < mean(ids, plan, "rebalances", 12)


def test_kills_faster_than_the_session_timeout_keep_an_eager_group_from_reading() -> None:
    """Each rebalance waits for the dead until their sessions are over, and by then somebody else is dead."""
    often, seldom = (w.rolling_restart(MEMBERS, PARTITIONS, "kill", gap_ms=ms) for ms in (40_000, 90_000))
    assert mean(q.EAGER, often, "longest_unowned_s") > 100
    assert mean(q.EAGER, seldom, "longest_unowned_s") < 60
    assert mean(q.COOPERATIVE, often, "unowned_s") < mean(q.EAGER, often, "unowned_s") / 2


def test_a_longer_session_trades_alarms_for_detection() -> None:
    plan = w.pauses(MEMBERS, PARTITIONS, hours=1, per_hour=4, mean_ms=8_000, seed=1)
    short, long = (
        run(replace(q.EAGER, session_timeout_ms=ms, heartbeat_interval_ms=2_000), plan, 1) for ms in (6_000, 60_000)
    )
    assert short.false_alarms > 5 > long.false_alarms
    assert short.detection_s < 7 < 50 < long.detection_s


def test_added_partitions_wait_for_what_each_protocol_looks_at() -> None:
    """The classic leader renews its metadata within five minutes, the coordinator of a consumer group knows at once."""
    plan = w.topic_grows(MEMBERS, PARTITIONS, 2 * PARTITIONS)
    eager, consumer = run(q.EAGER, plan, 1), run(q.CONSUMER, plan, 1)
    renewed = run(replace(q.EAGER, metadata_max_age_ms=1_000), plan, 1)
    assert (eager.rebalances, consumer.rebalances, eager.changes, consumer.changes) == (1, 1, 1, 1)
    assert eager.agree_s > 20, "this seed's leader"
    assert consumer.longest_unowned_s < q.CONSUMER.heartbeat_interval_ms / 1000 + 1
    assert renewed.longest_unowned_s < q.EAGER.heartbeat_interval_ms / 1000 + 2
    assert renewed.unowned_s > renewed.longest_unowned_s / 4, "half of the partitions were added, and all wait"
    with pytest.raises(NotImplementedError, match="ZooKeeper"):
        run(q.ZOOKEEPER, plan, 1)


def test_a_killed_static_consumer_is_refused_until_its_session_ends() -> None:
    """UNRELEASED_INSTANCE_ID: only an orderly departure releases the name; in the classic protocol the newcomer takes it."""
    killed = w.rolling_restart(MEMBERS, PARTITIONS, "kill", gap_ms=90_000)
    static, consumer = run(q.STATIC, killed, 2), run(q.STATIC_CONSUMER, killed, 2)
    assert (static.rebalances, static.longest_unowned_s) == (0, pytest.approx(8, abs=0.2))
    assert consumer.rebalances == 2 * MEMBERS
    assert 35 < consumer.longest_unowned_s < 55


def test_the_checks_change_no_figure() -> None:
    plan = w.rolling_restart(MEMBERS, PARTITIONS, "kill", gap_ms=90_000)
    for setting in KAFKA:
        assert run(setting, plan, 1) == run(setting, plan, 1, checks=False)


def test_traces_are_plans() -> None:
    changes = read_trace(["0,add,a", "0,add,b", "100000,remove,a", "200000,add,c"])
    result = run(q.EAGER, w.from_trace(changes, 8), 1)
    assert result.changes == 4
    assert result.rebalances >= 3


def test_the_meter_tells_unread_from_doubly_read() -> None:
    meter, a, b = OwnershipMeter(), {("t", 0)}, {("t", 0), ("t", 1)}
    meter.changed("one", set(), b, 0)
    meter.changed("two", set(), a, 1_000)
    meter.changed("one", b, set(), 3_000)
    assert (meter.doubled_ms, meter.is_whole(2)) == (2_000, False)
    meter.changed("one", set(), {("t", 1)}, 4_000)
    assert meter.unowned_ms == {("t", 1): 1_000}
    assert meter.pause_ms == {"one": 1_000}
    assert meter.is_whole(2)
    meter.stalled("two", a, 5_000)
    meter.changed("one", {("t", 1)}, b, 7_000)
    assert meter.unowned_ms == {("t", 1): 1_000, ("t", 0): 2_000}
    meter.resumed("two", 8_000)
    meter.end(9_000, {"one", "two"})
    assert meter.doubled_ms == 3_000
    assert meter.moves == 2, "from one to two, and back"


def test_jobs_give_the_same_cells_in_any_order() -> None:
    study = Study(2, 3, (1, 5))
    jobs = study.jobs()
    rows = [run_job(study, job) for job in jobs if study.points()[job[0]].workload == "one joins"]
    forwards, backwards = summarise(rows), summarise(reversed(rows))
    assert {(c.setting, c.members): c for c in forwards} == {(c.setting, c.members): c for c in backwards}
    assert {c.seeds for c in forwards} == {2}


def test_a_small_study_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lab", "study", "--out", str(tmp_path), "--seeds", "1", "--largest", "3", "--question", "5"]
    trace = tmp_path / "churn.txt"
    trace.write_text("0,add,a\n1000,add,b\n90000,remove,a\n")
    main.main([*words, "--churn", str(trace)], standalone_mode=False)
    assert "the page is" in capsys.readouterr().out
    page = (tmp_path / "study.md").read_text()
    assert "## 5. How does each grow" in page
    assert "## 1." not in page, "its runs take 10 s; the page in docs has every question"
    assert "## 7. The same protocols on churn traces" in page
    assert "| churn | RocketMQ, orderly |" in page
    pictures = [line.split("(", 1)[1].rstrip(")") for line in page.splitlines() if line.startswith("![")]
    assert len(pictures) >= 9
    assert all((tmp_path / name).read_text().startswith("<svg") for name in pictures)


def test_an_interrupted_study_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs that the file has are not run again, and the page is the same as without an interrupt."""
    words = ["lab", "study", "--seeds", "1", "--largest", "3", "--question", "5", "--processes", "1"]
    rows = tmp_path / "rows.txt"
    main.main([*words, "--out", str(tmp_path / "whole"), "--rows", str(rows)], standalone_mode=False)
    head, *lines = rows.read_text().splitlines()
    assert len(lines) == 12
    rows.write_text("\n".join([head, *lines[:4], lines[4][:50]]))
    main.main([*words, "--out", str(tmp_path / "continued"), "--rows", str(rows)], standalone_mode=False)
    assert sorted(rows.read_text().splitlines()[1:]) == sorted(lines)
    assert rows.read_text().splitlines()[:5] == [head, *lines[:4]], "they were run again"
    pages = [(tmp_path / folder / "study.md").read_text() for folder in ("whole", "continued")]
    assert pages[0] == pages[1]
    capsys.readouterr()


def test_rows_of_other_code_are_refused(tmp_path: Path) -> None:
    for text, message in (
        ('{"code": "another"}\n', "holds runs of other code"),
        ("a,b\n1,2\n", "does not hold the runs of a study"),
    ):
        (tmp_path / "rows.txt").write_text(text)
        with pytest.raises(UsageError, match=message):
            RowFile(tmp_path / "rows.txt")


def test_a_growth_chart_leaves_out_what_is_not_there() -> None:
    drawn = growth_chart([Growth("a", [(3, 1, 1, 2), (30, 0, 0, 0)]), Growth("b", [])], "t", "s", (3, 30))
    assert drawn.count("<circle") == 1


def test_the_page_in_docs_is_what_its_results_say(tmp_path: Path) -> None:
    for path in (RESULTS, REAL):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes((DOCS / path).read_bytes())
    write_page(tmp_path)
    assert (tmp_path / "study.md").read_text() == (DOCS / "study.md").read_text()
    for picture in (tmp_path / "study").glob("*.svg"):
        assert picture.read_text() == (DOCS / "study" / picture.name).read_text(), picture.name


def test_the_results_in_docs_are_what_the_code_gives() -> None:
    """A few of the cells, run again with their seeds. If a change of the code changes them: `coterie lab study`."""
    results = json.loads((DOCS / RESULTS).read_text())
    study = Study(results["seeds"], results["largest"])
    wanted = {
        (1, "one joins", "eager"),
        (1, "one joins", "ZooKeeper"),
        (1, "one is killed", "RocketMQ, orderly"),
        (2, "deployment", "consumer"),
        (4, "initial delay 3 s", "eager"),
    }
    points = [n for n, p in enumerate(study.points()) if (p.question, p.workload, p.setting.name) in wanted]
    cells = summarise([run_job(study, (point, seed)) for point in points for seed in range(results["seeds"])])
    recorded = {(c["question"], c["workload"], c["setting"]): c["measures"] for c in results["cells"]}
    assert len(cells) == len(wanted)
    for cell in cells:
        result = recorded[cell.question, cell.workload, cell.setting]
        assert {name: list(values) for name, values in cell.measures.items()} == result


def test_the_laboratory_beside_the_real_processes_is_of_this_code() -> None:
    """Some of its points, run again."""
    document = json.loads((DOCS / REAL).read_text())
    points = [RealPoint(**point) for point in document["points"]]
    few = [p for p in points if (p.protocol, p.what) in {("consumer", "one joins"), ("eager", "one is killed")}]
    assert len(few) == 2
    assert simulated_again(few) == few
    gone = replace(few[0], what="one sleeps")
    assert simulated_again([gone]) == [gone]
    assert document["date"] in (DOCS / "study.md").read_text()


def test_the_texts_take_their_figures_from_the_cells() -> None:
    """Each named cell is filled, and with another figure where the results are others; one that is missing is an error."""
    response = study_answers.study_answer
    results = json.loads((DOCS / RESULTS).read_text())
    for question in sorted({c["question"] for c in results["cells"]}):
        cells = [Cell.from_json(c) for c in results["cells"] if c["question"] == question]
        grown = [
            replace(c, measures={n: m if n == "formed" else tuple(v + 1000 for v in m) for n, m in c.measures.items()})
            for c in cells
        ]
        shown, other = response(question, cells), response(question, grown)
        assert "$" not in shown.sentence + shown.details
        template = (Path(study_answers.__file__).parent / "study_text" / f"{question}.md").read_text()
        named = len(re.findall(r"\$\{[^}]*\|[^}]*\}", template))
        words = zip(
            f"{shown.sentence} {shown.details}".split(), f"{other.sentence} {other.details}".split(), strict=True
        )
        assert sum(a != b for a, b in words) >= named > 2
        with pytest.raises(KeyError):
            response(question, [c for c in cells if c.workload != cells[0].workload])


def test_the_page_has_the_answers_first_one_summary_and_the_method_last() -> None:
    page = (DOCS / "study.md").read_text()
    headings = re.findall(r"^## (.*)$", page, re.M)
    assert headings[:2] == ["Answers", "Summary"]
    assert headings[-2:] == ["Compared with real processes", "Method"]
    for title in TITLES.values():
        if title in headings or any(h.endswith(title) for h in headings):
            responses = [line for line in page.split("## Summary")[0].splitlines() if title in line]
            assert len(responses) == 1
            assert responses[0].endswith(".")
    summary = page.split("## Summary")[1].split("## ")[0]
    assert {line.split("|")[1].strip() for line in summary.strip().splitlines()[2:]} >= {
        "eager",
        "cooperative",
        "RocketMQ",
    }


def test_measures_are_all_told() -> None:
    from coterie.console.study_page import MEASURES

    assert set(MEASURES) <= set(asdict(Measures())) | {"caused"}
