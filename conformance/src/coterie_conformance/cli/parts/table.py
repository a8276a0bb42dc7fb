"""The parts of `compare`: what each one runs, for which versions of Apache Kafka, and how its figures read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.cli.parts.invocation import progress_bar
from coterie.console.terminal import write_line, write_lines
from coterie.text.addresses import format_address
from coterie.text.quantity import quantity
from coterie_conformance.assignors.comparison import JAVA_LIMIT_S
from coterie_conformance.cli.parts.cluster import (
    CLUSTER_VERSION,
    cluster_clients_part,
    cluster_clients_sentences,
    cluster_part,
    cluster_sentences,
    histories_part,
    histories_sentences,
)
from coterie_conformance.cli.parts.observe import (
    CONSOLE_VERSIONS,
    OBSERVED_VERSIONS,
    PROXIED_VERSIONS,
    console_part,
    console_sentences,
    observe_part,
    observe_sentences,
    predict_part,
    predict_sentences,
    proxy_part,
    proxy_sentences,
)
from coterie_conformance.cli.parts.older_protocols import rocketmq_part, zookeeper_part
from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check
from coterie_conformance.cli.parts.programs import (
    applications_part,
    applications_sentences,
    certify_client_part,
    clients_part,
    clients_sentences,
    commands_part,
    commands_sentences,
    languages_part,
    members_part,
    members_sentences,
    share_clients_part,
    share_clients_sentences,
)
from coterie_conformance.cli.parts.security import (
    ACL_VERSIONS,
    SECURITY_VERSIONS,
    acls_part,
    acls_sentences,
    hostile_part,
    security_part,
    security_sentences,
)
from coterie_conformance.servers.kafka import EVERY_VERSION, VERSIONS, CannotRun
from coterie_conformance.tools.our_commands import is_older

if TYPE_CHECKING:
    from coterie_conformance.groups.format import FormatCheck
    from coterie_conformance.groups.story import StoryResult

ASSIGNOR_CASES = 5_000
CONSUMER_GROUP_STORIES = 250
CANNOT_RUN_EXIT = 3
STEPS_SHOWN = 12
DIFFERENCES_SHOWN = 20
NIGHTLY_QUESTIONS = 1_000_000  # of the part everything, per version


@dataclass(frozen=True, slots=True)
class KafkaPart:
    """A part that is run once for each version of Kafka.

    ``run`` returns its figures, which join those of the other parts of that version; "failed" in them counts what is
    wrong. It may raise CannotRun. ``sentences`` are the lines about these figures.
    """

    run: Callable[[PartOptions], Figures]
    sentences: Callable[[Figures], list[str]]
    versions: tuple[str, ...] = VERSIONS


def _format(options: PartOptions) -> Figures:
    from coterie_conformance.groups.format import check_format

    checks = check_format(options.version, options.folder / "format", _write_format_check)
    failed = sum(not check.right for check in checks)
    return {"format": {check.name: check.right for check in checks}, "failed": failed}


def _format_sentences(figures: Figures) -> list[str]:
    return [f"  files: {sum(figures['format'].values())} of {quantity(len(figures['format']), 'check')} right"]


def _requests(options: PartOptions) -> Figures:
    from coterie_conformance.differences.table import STORY_ROWS
    from coterie_conformance.groups.differential import run_differential

    with progress_bar(options.steps, f"Kafka {options.version}, steps") as advance:

        def write_result(result: StoryResult) -> None:
            advance(result.steps)
            if result.difference:
                _write_difference(result)

        report = run_differential(
            options.version,
            options.steps,
            options.seed,
            options.folder / "requests",
            write_result,
            brokers=options.brokers,
        )
    reasons = {name: reason for name, reason, _ in STORY_ROWS}
    accepted = {name: {"stories": n, "reason": reasons[name]} for name, n in report.accepted.most_common()}
    unexplained = len(report.failed)
    figures = {"steps": report.steps, "stories": report.stories, "unexplained": unexplained, "failed": unexplained}
    return figures | {"accepted": accepted}


def _requests_sentences(figures: Figures) -> list[str]:
    count = f"{quantity(figures['steps'], 'step')} in {quantity(figures['stories'], 'story', 'stories')}"
    unexplained = quantity(figures["unexplained"], "unexplained difference")
    lines = [f"  requests: {count}, {unexplained}"]
    return lines + [
        f"    {quantity(a['stories'], 'story', 'stories'):>12} ended at a known difference: {a['reason']}"
        for a in figures["accepted"].values()
    ]


def _everything(options: PartOptions) -> Figures:
    from coterie_conformance.everything.report import figures, scenario
    from coterie_conformance.everything.run import Wanted, run_everything

    wanted = Wanted(options.questions, options.seed, options.replay, options.apis, brokers=options.brokers)

    def progress(line: str) -> None:
        write_line(f"Kafka {options.version}: {line}", err=True)

    verdict = run_everything(options.version, wanted, options.folder / "everything", progress)
    for kind, examples in list(verdict.kinds.items())[:DIFFERENCES_SHOWN]:
        text = f"\n{verdict.met[kind]} x {scenario(examples[0])}\n  (story: {examples[0].story.name})"
        write_lines(text.split("\n"), color="red", err=True)
    return {"everything": figures(verdict), "failed": len(verdict.kinds)}


def _everything_sentences(figures: Figures) -> list[str]:
    f = figures["everything"]
    counts = (
        f"{quantity(f['questions'], 'question')} in {quantity(f['stories'], 'story', 'stories')}, {f['seconds']:.0f} s"
    )
    kinds = quantity(len(f["differences"]), "kind")
    lines = [
        f"  everything: {counts}, {f['apis']} of {quantity(f['served'], 'API')}; {kinds} of unexplained difference"
    ]
    for api, c in f["coverage"].items():
        versions = f"v{c['versions'][0]} to v{c['versions'][-1]}"
        counts = ", ".join(quantity(c[f"{noun}s"], noun) for noun in ("field", "case", "question"))
        lines.append(f"    {api} {versions}: {counts}")
        if c["refused"]:
            lines.append(f"      always refused: {', '.join(f'v{version}' for version in c['refused'])}")
        if c["one_value"]:
            lines.append(f"      with one value alone where it was not refused: {', '.join(c['one_value'])}")
    lines += [f"    {quantity(row['met'], 'known difference'):>24}: {row['reason']}" for row in f["rows"].values()]
    lines += [f"    a row that explained nothing: {name}" for name in f["unused_rows"]]
    return lines + [f"    not compared: {part}: {reason}" for part, reason in f["not_requested"].items()]


def _client(options: PartOptions) -> Figures:
    from coterie_conformance.client.admin_calls import ADMIN_CHECKS
    from coterie_conformance.client.checks import CHECKS, run_checks
    from coterie_conformance.client.consumer_groups import CONSUMER_GROUP_CHECKS, SINCE
    from coterie_conformance.servers.kafka import running

    def write_result(name: str, wrong: str) -> None:
        write_check(f"our client, {name}", wrong)

    with running(options.version, options.folder / "client", {"group.initial.rebalance.delay.ms": "0"}) as (host, port):
        wanted = CHECKS + ADMIN_CHECKS + (() if is_older(options.version, SINCE) else CONSUMER_GROUP_CHECKS)
        checks = run_checks(format_address(host, port), write_result, wanted)
    return {"client": checks, "failed": sum(not right for right in checks.values())}


def _client_sentences(figures: Figures) -> list[str]:
    return [f"  our client: {sum(figures['client'].values())} of {quantity(len(figures['client']), 'check')} right"]


def _assignors(options: PartOptions) -> Figures:
    """Random groups, then the two large ones with the seconds each side took."""
    from coterie.assignors import ASSIGNORS
    from coterie.assignors.server_side import SERVER_ASSIGNORS
    from coterie_conformance.assignors.comparison import compare, large_cases, random_cases
    from coterie_conformance.assignors.server_side import PROGRAM, SINCE, server_side_cases
    from coterie_conformance.assignors.tasks import SINCE as TASKS_SINCE
    from coterie_conformance.assignors.tasks import compare_tasks, task_cases

    by_name, failed = dict[str, Any](), 0
    comparisons = {
        name: compare(options.version, random_cases(name, ASSIGNOR_CASES, options.seed)) for name in ASSIGNORS
    }
    if not is_older(options.version, SINCE):
        for name in SERVER_ASSIGNORS:
            cases = server_side_cases(name, ASSIGNOR_CASES, options.seed)
            comparisons[f"server-side {name}"] = compare(options.version, cases, program=PROGRAM)
    if not is_older(options.version, TASKS_SINCE):
        comparisons["tasks sticky"] = compare_tasks(options.version, task_cases(ASSIGNOR_CASES, options.seed))
    for name, c in comparisons.items():
        for failure in c.failures[:3]:
            write_line(f"{name}: {failure}", color="red", err=True)
        counts = {"cases": c.cases, "same": c.same, "better_balanced": c.better_balanced, "fewer_moves": c.fewer_moves}
        by_name[name] = counts | {"theirs_invalid": c.theirs_invalid, "failed": len(c.failures)}
        failed += len(c.failures)
        write_line(f"{'WRONG' if c.failures else 'right'}  assignor {name}: {counts}", err=True)
    seconds = []
    for what, case in large_cases():
        c = compare(options.version, [case], settle=False)
        seconds.append({"what": what, "ours_s": round(c.our_ms / 1000, 2), "theirs_s": _seconds(c.their_ms)})
        write_line(f"       {what}: {seconds[-1]['ours_s']} s, Java {seconds[-1]['theirs_s']} s", err=True)
    return {"assignors": by_name, "assignor_seconds": seconds, "failed": failed}


def _consumer_groups(options: PartOptions) -> Figures:
    from coterie_conformance.groups.consumer_groups import run_consumer_groups

    report = run_consumer_groups(
        options.version,
        CONSUMER_GROUP_STORIES,
        options.seed,
        options.folder / "consumer-groups",
        brokers=options.brokers,
    )
    for failure in report.failures:
        write_line(failure, color="red", err=True)
    figures = {"stories": report.stories, "steps": report.steps, "failed": len(report.failures)}
    return {"consumer_groups": figures, "failed": len(report.failures)}


def _consumer_groups_sentences(figures: Figures) -> list[str]:
    counts = figures["consumer_groups"]
    steps = f"{quantity(counts['steps'], 'request')} in {quantity(counts['stories'], 'story', 'stories')}"
    return [f"  consumer groups (KIP-848): {steps}, {counts['failed']} with another response"]


def _assignors_sentences(figures: Figures) -> list[str]:
    lines = [
        f"  assignor {name}: {quantity(a['cases'], 'random group')}, {a['same']} the same, {a['better_balanced']} better "
        f"balanced, {a['fewer_moves']} with fewer moves, {a['failed']} worse"
        for name, a in figures["assignors"].items()
    ]
    return lines + [f"    {s['what']}: {s['ours_s']} s, Java {s['theirs_s']} s" for s in figures["assignor_seconds"]]


def _seconds(ms: float) -> float | str:
    return f"more than {JAVA_LIMIT_S:g}" if ms == float("inf") else round(ms / 1000, 2)


def _tools(options: PartOptions) -> Figures:
    from coterie_conformance.tools.run import Result, run_tools
    from coterie_conformance.tools.table import LEFT_OUT

    def write_result(result: Result) -> None:
        write_line(f"{result.status:9}  {result.command.name}", err=True)
        if result.difference or result.skipped:
            write_line(
                result.difference or result.skipped, color="red" if result.status == "DIFFERENT" else None, err=True
            )

    report = run_tools(options.version, options.folder / "tools", write_result, brokers=options.brokers)
    accepted = {r.command.name: r.accepted for r in report.results if r.accepted}
    counts = Counter(r.status for r in report.results)
    left_out = [f"{row.pattern} of {row.commands}: {row.reason}" for row in LEFT_OUT]
    figures = {"commands": len(report.results), "seconds": round(report.seconds), "accepted": accepted}
    figures["left_out"] = left_out
    statuses = {status: counts[status] for status in ("same", "reworded", "DIFFERENT", "SKIPPED")}
    return {"tools": figures | statuses, "failed": counts["DIFFERENT"]}


def _tools_sentences(figures: Figures) -> list[str]:
    t = figures["tools"]
    counts = f"{t['same']} the same, {t['reworded']} the same refusal in other words, {len(t['accepted'])} accepted"
    counts += f", {t['DIFFERENT']} different, {t['SKIPPED']} skipped"
    lines = [f"  Kafka's own tools: {quantity(t['commands'], 'command')} in {t['seconds']} s: {counts}"]
    lines += [f"    accepted: {name}: {reason}" for name, reason in t["accepted"].items()]
    return lines + [f"    lines left out: {row}" for row in t["left_out"]]


def _spark(options: PartOptions, results: list[Figures]) -> int:
    """Spark's own connector on coterie; the exit code that this part calls for."""
    from coterie_conformance.bench.loads.load import fill_topic
    from coterie_conformance.bench.measurement import broker
    from coterie_conformance.spark.run import run_spark

    try:
        with broker(options.folder / "spark-data") as (address, _):
            where = format_address(*address)
            figures = run_spark(
                where, lambda *wanted: fill_topic(where, *wanted), options.folder / "spark", write_check
            )
    except CannotRun as reason:
        write_line(f"SKIPPED Spark's connector: {reason}", color="red", bold=True, err=True)
        results.append({"connector": "spark", "skipped": str(reason)})
        return CANNOT_RUN_EXIT
    results.append({"connector": "spark", **figures})
    if not options.as_json:
        write_line(f"Spark's own connector ({figures['peer']}) on coterie:")
        write_line(f"  {sum(figures['checks'].values())} of {quantity(len(figures['checks']), 'check')} right")
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in figures["options"].items())
        write_line(f"  options, asked of both: {outcomes}")
        for r in figures["rates"]:
            rates = f"ours {r['ours']:,} rows/s, theirs {r['theirs']:,}: {r['ratio']:g} x"
            write_line(f"  100-byte values to {r['sink']}: {rates}")
    return 0 if all(figures["checks"].values()) and not figures["options"].get("wrong") else 1


def _zookeeper(options: PartOptions, results: list[Figures]) -> int:
    return zookeeper_part(options.folder / "zookeeper", results, options.as_json)


def _rocketmq(options: PartOptions, results: list[Figures]) -> int:
    return rocketmq_part(options.folder, options.seed, results, options.as_json)


def _write_format_check(check: FormatCheck) -> None:
    write_line(f"{'right' if check.right else 'WRONG'}  {check.name}: {check.text}", err=True)


def _write_difference(result: StoryResult) -> None:
    write_line(err=True)
    write_line(f"seed {result.seed} ({result.kind}), step {result.steps}, the steps before:", err=True)
    for line in result.log[-STEPS_SHOWN:]:
        write_line(f"  {line}", err=True)
    write_lines(result.difference.split("\n"), color="red", err=True)


# 2.6 has neither generations of claims nor our client's APIs.
NEWER = tuple(v for v in VERSIONS if not v.startswith("2."))
DEPLOYED_VERSION = "4.3.0"
FROM_4_3 = tuple(v for v in VERSIONS if not is_older(v, "4.3"))


# A new part is one line here. The functions import what they run: most needs an extra, or a JVM.
def _certify(options: PartOptions) -> Figures:
    from coterie.certify.page import summary
    from coterie_conformance.certify.recorder import certify_kafka, record_kafka

    if options.record:
        write_line(f"recorded {record_kafka(options.version, options.folder / 'recorded')}", err=True)
    certificate = certify_kafka(options.version, options.folder / "certified", lambda _: None)
    for finding in certificate.findings:
        for difference in finding.differences[:1]:
            part = difference.parts[0]
            write_line(f"false alarm: {finding.story.story.name}, {difference.question.name}: {part.path}", err=True)
    return {"certify": summary(certificate), "failed": certificate.different()}


def _certify_sentences(figures: Figures) -> list[str]:
    return [f"  Apache Kafka beside its own recording: {figures['certify']}"]


KAFKA_PARTS: dict[str, KafkaPart] = {
    "format": KafkaPart(_format, _format_sentences),
    "assignors": KafkaPart(_assignors, _assignors_sentences, NEWER),
    "consumer-groups": KafkaPart(_consumer_groups, _consumer_groups_sentences, FROM_4_3),
    "client": KafkaPart(_client, _client_sentences, NEWER),
    "requests": KafkaPart(_requests, _requests_sentences),
    "tools": KafkaPart(_tools, _tools_sentences, NEWER),
    "cli": KafkaPart(commands_part, commands_sentences, EVERY_VERSION),
    "clients": KafkaPart(clients_part, clients_sentences, NEWER),
    "members": KafkaPart(members_part, members_sentences, FROM_4_3),
    "share-clients": KafkaPart(share_clients_part, share_clients_sentences, FROM_4_3),
    "observe": KafkaPart(observe_part, observe_sentences, OBSERVED_VERSIONS),
    "proxy": KafkaPart(proxy_part, proxy_sentences, PROXIED_VERSIONS),
    "console": KafkaPart(console_part, console_sentences, CONSOLE_VERSIONS),
    "predict": KafkaPart(predict_part, predict_sentences, (DEPLOYED_VERSION,)),
    "histories": KafkaPart(histories_part, histories_sentences, NEWER),
    "applications": KafkaPart(applications_part, applications_sentences, NEWER),
    "cluster": KafkaPart(cluster_part, cluster_sentences, (CLUSTER_VERSION,)),
    "cluster-clients": KafkaPart(cluster_clients_part, cluster_clients_sentences, (CLUSTER_VERSION,)),
    "acls": KafkaPart(acls_part, acls_sentences, ACL_VERSIONS),
    "security": KafkaPart(security_part, security_sentences, SECURITY_VERSIONS),
    "everything": KafkaPart(_everything, _everything_sentences),
    "certify": KafkaPart(_certify, _certify_sentences),
}
# (what is options, the results so far, to be added to) -> exit code
OTHER_PARTS: dict[str, Callable[[PartOptions, list[Figures]], int]] = {
    "spark": _spark,
    "zookeeper": _zookeeper,
    "rocketmq": _rocketmq,
    "hostile": hostile_part,
    "certify-client": certify_client_part,
    "languages": lambda options, results: languages_part(options.folder / "languages", results),
}
