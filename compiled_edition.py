"""Builds the compiled edition: the modules below as extension modules, made by mypyc of the same source.

    python compiled_edition.py FOLDER      builds it in FOLDER/coterie, beside a copy of the source; minutes

mypyc leaves the `__init__` of a dataclass to the interpreter, where it costs five times as much as a compiled one: `write_out`
gives each dataclass of these modules the same `__init__` as text, on a line that was blank, so that lines keep their numbers.
mypyc knows no decorator but `dataclass`, so that a `value` (`coterie/values.py`) becomes a frozen one.
Needs mypy, setuptools and a C compiler.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import os
import shutil
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "src" / "coterie"
STAMP = "edition.sha256"
# What a heartbeat, a commit, a join, a small Produce and a Fetch pass on their way through the broker; their messages, which
# become native classes (compiled_messages.py); what a broker reads its logs with at its start; the machines of a consumer and a
# producer; replicas; and what the laboratory does for each event. A package stands for its files. No class outside may inherit
# from one of these but `OPEN`, and no class from two of them. mypyc cannot compile a generic dataclass, what is only for a type
# checker (consuming/record), nor an heir that gives an attribute a narrower type. tests/test_compiled_source.py has its other
# limits.
MODULES = (
    "backoff.py",
    "cluster_metadata.py",
    "journal.py",
    "script.py",
    "wire/fields.py",
    "wire/framing.py",
    "wire/message.py",
    "wire/messages/add_offsets_to_txn.py",
    "wire/messages/add_partitions_to_txn.py",
    "wire/messages/api_versions.py",
    "wire/messages/consumer_group_heartbeat.py",
    "wire/messages/consumer_group_records.py",
    "wire/messages/consumer_offsets.py",
    "wire/messages/consumer_protocol.py",
    "wire/messages/end_txn.py",
    "wire/messages/fetch.py",
    "wire/messages/find_coordinator.py",
    "wire/messages/heartbeat.py",
    "wire/messages/init_producer_id.py",
    "wire/messages/join_group.py",
    "wire/messages/leader_and_isr.py",
    "wire/messages/leave_group.py",
    "wire/messages/list_offsets.py",
    "wire/messages/metadata.py",
    "wire/messages/offset_commit.py",
    "wire/messages/offset_fetch.py",
    "wire/messages/offset_for_leader_epoch.py",
    "wire/messages/produce.py",
    "wire/messages/producer_snapshot.py",
    "wire/messages/sticky_assignor.py",
    "wire/messages/sync_group.py",
    "wire/messages/transaction_state.py",
    "wire/messages/txn_offset_commit.py",
    "wire/messages/update_metadata.py",
    "wire/messages/write_txn_markers.py",
    "wire/native_parts.py",
    "wire/primitives.py",
    "records/batch.py",
    "records/decoding.py",
    "records/encoding.py",
    "records/fields.py",
    "records/markers.py",
    "records/varints.py",
    "records/walking.py",
    "log/appended.py",
    "log/compaction.py",
    "log/config.py",
    "log/epoch_cache.py",
    "log/epoch_checkpoint.py",
    "log/filesystem.py",
    "log/flushing.py",
    "log/leader_epochs.py",
    "log/log_state.py",
    "log/partition_log.py",
    "log/producers.py",
    "log/reading.py",
    "log/recovery.py",
    "log/segment.py",
    "log/segment_index.py",
    "log/segment_loader.py",
    "log/survey.py",
    "log/transactions.py",
    "log/validation.py",
    "coordinator/classic",
    "coordinator/commands.py",
    "coordinator/consumer",
    "coordinator/deadlines.py",
    "coordinator/dispatch.py",
    "coordinator/events.py",
    "coordinator/journal_lines.py",
    "coordinator/offsets",
    "coordinator/offsets_log.py",
    "coordinator/outcome.py",
    "coordinator/partitioning.py",
    "coordinator/refusals.py",
    "coordinator/replay.py",
    "coordinator/shard.py",
    "coordinator/state.py",
    "coordinator/stored.py",
    "coordinator/subscriptions.py",
    "coordinator/transactions",
    "coordinator/write_queue.py",
    "broker/calls.py",
    "broker/connection_memory.py",
    "broker/deadline_timer.py",
    "broker/fetch_sessions.py",
    "broker/flusher.py",
    "broker/group_coordinator.py",
    "broker/hosted_shard.py",
    "broker/journal_writer.py",
    "broker/memory.py",
    "broker/pending.py",
    "broker/quotas.py",
    "broker/routes.py",
    "broker/server.py",
    "broker/topic.py",
    "broker/turns.py",
    "broker/handlers/current_leaders.py",
    "broker/handlers/fetch.py",
    "broker/handlers/groups.py",
    "broker/handlers/offsets.py",
    "broker/handlers/produce_wait.py",
    "broker/handlers/records.py",
    "member",
    "member/consumer",
    "consuming/assigned_positions.py",
    "consuming/auto_commit.py",
    "consuming/commit_errors.py",
    "consuming/commit_requests.py",
    "consuming/commit_verdicts.py",
    "consuming/commits.py",
    "consuming/committed_lookup.py",
    "consuming/coordinator_lookup.py",
    "consuming/fetch_config.py",
    "consuming/fetch_effects.py",
    "consuming/fetch_errors.py",
    "consuming/fetch_node.py",
    "consuming/fetch_session.py",
    "consuming/fetching.py",
    "consuming/offset_lookup.py",
    "consuming/owned_offsets.py",
    "consuming/position.py",
    "consuming/validation.py",
    "producing",
    "replication",
    "laboratory/actor_commits.py",
    "laboratory/broker_actor.py",
    "laboratory/checkers.py",
    "laboratory/client_connections.py",
    "laboratory/consumer_group_checker.py",
    "laboratory/consumer_member_actor.py",
    "laboratory/consumer_member_checker.py",
    "laboratory/decoded_reads.py",
    "laboratory/disk.py",
    "laboratory/earliest_timer.py",
    "laboratory/fetching_actor.py",
    "laboratory/group_member_actor.py",
    "laboratory/member_actor.py",
    "laboratory/member_broker.py",
    "laboratory/member_checker.py",
    "laboratory/producing_actor.py",
    "laboratory/requesting_producer.py",
    "laboratory/sending_actor.py",
    "laboratory/traffic.py",
    "laboratory/transacting_producer.py",
    "laboratory/world.py",
    "laboratory/zookeeper_server.py",
    "laboratory/cluster/administrator.py",
    "laboratory/cluster/broker.py",
    "laboratory/cluster/clients.py",
    "laboratory/cluster/disk_replica_log.py",
    "laboratory/cluster/known_records.py",
    "laboratory/cluster/leading_broker.py",
    "laboratory/cluster/ledger_clients.py",
    "laboratory/cluster/links.py",
    "laboratory/cluster/machine_clients.py",
    "laboratory/cluster/machine_clocks.py",
    "laboratory/cluster/machine_consumer.py",
    "laboratory/cluster/machine_producer.py",
    "laboratory/cluster/process.py",
    "laboratory/cluster/process_scheduler.py",
    "laboratory/cluster/produced_log.py",
    "laboratory/cluster/producer_id_checker.py",
    "laboratory/cluster/record_deletions.py",
    "laboratory/cluster/replica_checker.py",
    "laboratory/cluster/replica_fetcher.py",
    "laboratory/cluster/replica_log.py",
    "laboratory/cluster/request_channels.py",
    "laboratory/cluster/topic_settings.py",
    "laboratory/cluster/transactional_clients.py",
    "laboratory/cluster/transactional_log.py",
    "laboratory/node/client.py",
    "laboratory/node/connection.py",
    "laboratory/node/coordinator_view.py",
    "laboratory/node/copy_checker.py",
    "laboratory/node/delivery_checker.py",
    "laboratory/node/disk.py",
    "laboratory/node/producer.py",
    "laboratory/node/readers.py",
    "laboratory/node/record_checker.py",
    "laboratory/node/scheduler.py",
    "laboratory/node/starting_offsets.py",
    "laboratory/node/transactional_producer.py",
    "laboratory/node/writers.py",
)
# Classes with heirs that are interpreted: mypyc then looks a method up in the object's class, unless that is the class itself.
OPEN = frozenset(
    {
        "BrokerActor",
        "ClusterBroker",
        "ConsumerMemberActor",
        "GroupMemberActor",
        "LaboratoryConnection",
        "LeadingBroker",
        "MemberActor",
        "MemoryFile",
        "MemoryFileSystem",
        "Message",
        "Process",
        "ReplicatingBroker",
        "ScriptMachine",
        "Struct",
        "VersionedStruct",
        "Traffic",
    }
)
# Extension modules by what is imported together: a broker's memory has neither a client's nor the laboratory's.
GROUPS = {"coterie_client": ("consuming", "member", "producing"), "coterie_laboratory": ("laboratory",)}
THE_REST = "coterie"
OPEN_TO_HEIRS = "@mypyc_attr(allow_interpreted_subclasses=True)"
MYPY_CONFIG = "[mypy]\nmypy_path = {folder}\npython_version = {version}\nignore_missing_imports = True\n"


def module_files() -> list[str]:
    """The files to compile, relative to the package."""
    files: list[str] = []
    for entry in MODULES:
        path = SOURCE / entry
        assert path.exists(), f"MODULES of compiled_edition.py names {entry}, which does not exist"
        inside = sorted(path.glob("*.py")) if path.is_dir() else [path]
        files += [str(file.relative_to(SOURCE)) for file in inside if file.name != "__init__.py"]
    return files


def is_of_messages(file: str) -> bool:
    """Whether a file's classes are declared messages, which become native ones."""
    return file.startswith("wire/messages/")


def grouped() -> dict[str, list[str]]:
    """`module_files` by the group of each."""
    group_of = {room: group for group, rooms in GROUPS.items() for room in rooms}
    groups: dict[str, list[str]] = {}
    for file in module_files():
        groups.setdefault(group_of.get(file.partition("/")[0], THE_REST), []).append(f"coterie/{file}")
    return groups


# -- the constructors of dataclasses ----------------------------------------------------------------------------------


def write_out(source: str, bases: frozenset[str] = frozenset()) -> str:
    """The source with an `__init__` in each dataclass that has fields of its own only, a blank line for it, and no heirs: it is
    not one of ``bases``."""
    source = _with_dataclasses(source)
    lines = source.split("\n")
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    imports = []
    for node in classes:
        if not node.bases and not node.keywords and node.name not in bases:
            _write_out_class(node, lines)
        if node.name in OPEN:
            imports = ["from typing import TYPE_CHECKING"]
            _open_class(node, lines)
    loaded = sorted(set().union(*(_builtins_of(node) for node in classes if node.decorator_list)))
    if loaded:
        imports.append(f"from builtins import {', '.join(loaded)}")
    if imports:
        blank = lines.index("from __future__ import annotations") + 1
        assert not lines[blank], f"no blank line for {imports}"
        lines[blank] = "; ".join(imports)
    return "\n".join(lines)


def _builtins_of(node: ast.ClassDef) -> set[str]:
    """The builtin types of a dataclass's fields that mypyc takes for globals of the module: `object` and exceptions."""
    names = {ast.unparse(part.annotation) for part in node.body if isinstance(part, ast.AnnAssign)}
    kinds = {name: getattr(builtins, name, int) for name in names}
    return {name for name, kind in kinds.items() if kind is object or issubclass(kind, BaseException)}


def _open_class(node: ast.ClassDef, lines: list[str]) -> None:
    """Marks a class of `OPEN` for mypyc, on the two blank lines before it; mypy_extensions is not imported at run time."""
    assert not any(lines[at] for at in (node.lineno - 3, node.lineno - 2)), f"no blank lines for {node.name}"
    lines[node.lineno - 3] = "if TYPE_CHECKING: from mypy_extensions import mypyc_attr"
    lines[node.lineno - 2] = OPEN_TO_HEIRS


def _with_dataclasses(source: str) -> str:
    """The source with a frozen dataclass in the place of each `value`, on the same lines."""
    source = source.replace("from coterie.values import value\n", "from coterie.lazy_dataclass import dataclass\n")
    return source.replace("@value\n", "@dataclass(frozen=True, slots=True)\n")


def bases_of(source: str) -> set[str]:
    """The names of the classes that others in this source inherit from."""
    classes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    return {ast.unparse(base).rpartition(".")[2] for node in classes for base in node.bases}


def _write_out_class(node: ast.ClassDef, lines: list[str]) -> None:
    decorator = next((d for d in node.decorator_list if _name_of(d) == "dataclass"), None)
    constructor = _constructor(node)
    blank = _blank_line(node, lines)
    if decorator is None or constructor is None or blank is None:
        return
    lines[blank] = f"    {constructor}  # type: ignore[misc]"
    at = decorator.lineno - 1
    if isinstance(decorator, ast.Call):
        lines[at] = lines[at].replace(
            "dataclass(", "dataclass(init=False, " if decorator.keywords else "dataclass(init=False", 1
        )
    else:
        lines[at] += "(init=False)"


def _constructor(node: ast.ClassDef) -> str | None:
    """The `__init__` that `dataclass` would make, on one line; None where that is not a matter of fields with defaults."""
    parameters, assignments = ["self"], []
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name in ("__init__", "__post_init__"):
            return None
        if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name):
            continue
        name, kind = part.target.id, ast.unparse(part.annotation)
        if kind.startswith(("ClassVar", "InitVar", "KW_ONLY")):
            return None
        value = part.value
        if isinstance(value, ast.Call) and _name_of(value) == "field":
            options = {keyword.arg: keyword.value for keyword in value.keywords}
            if (
                set(options) != {"default_factory"}
                or "None" in kind
                or isinstance(options["default_factory"], ast.Lambda)
            ):
                return None
            parameters.append(f"{name}: {kind} | None = None")
            assignments.append(
                f"self.{name} = {ast.unparse(options['default_factory'])}() if {name} is None else {name}"
            )
            continue
        parameters.append(f"{name}: {kind}" + ("" if value is None else f" = {ast.unparse(value)}"))
        assignments.append(f"self.{name} = {name}")
    return f"def __init__({', '.join(parameters)}) -> None: {'; '.join(assignments)}" if assignments else None


def _blank_line(node: ast.ClassDef, lines: list[str]) -> int | None:
    """The index of the first blank line between two statements of the class's body."""
    for before, after in zip(node.body, node.body[1:], strict=False):
        for at in range(before.end_lineno or 0, after.lineno - 1):
            if not lines[at].strip():
                return at
    return None


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.id if isinstance(node, ast.Name) else ""


# -- the build --------------------------------------------------------------------------------------------------------


def digest() -> str:
    """Of all that the compiled modules are made of: every source file (types come from the others too), and this program."""
    total = hashlib.sha256(sys.version.encode())
    for path in [Path(__file__), ROOT / "compiled_messages.py", *sorted(SOURCE.rglob("*.py"))]:
        total.update(path.read_bytes())
    return total.hexdigest()


def is_fresh(folder: Path) -> bool:
    """Whether FOLDER holds what `build` would make of the source as it is now."""
    stamp = folder / STAMP
    return stamp.is_file() and stamp.read_text() == digest()


def write_sources(folder: Path) -> None:
    """A copy of the packages in ``folder``, with written out constructors in the modules that are compiled, and native classes
    in those of messages."""
    sys.path.insert(0, str(SOURCE.parent))  # the declarations are read by running them
    from compiled_messages import native_module

    for package in ("coterie", "pyspark_coterie"):
        shutil.rmtree(folder / package, ignore_errors=True)
        shutil.copytree(SOURCE.parent / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    copies = [folder / "coterie" / file for file in module_files()]
    bases = frozenset().union(*(bases_of(copy.read_text("utf-8")) for copy in copies))
    for file, copy in zip(module_files(), copies, strict=True):
        text = copy.read_text("utf-8")
        copy.write_text(native_module(file, text) if is_of_messages(file) else write_out(text, bases), "utf-8")


def build(folder: Path) -> None:
    """Makes the extension modules in ``folder``, beside the unchanged source, and a list of them, `modules.txt`. Raises
    ImportError without mypy or setuptools, SystemExit for types that mypyc cannot compile, and setuptools' CompileError."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    folder.mkdir(parents=True, exist_ok=True)
    (folder / STAMP).unlink(missing_ok=True)
    of_source, begun_s = digest(), time.time()  # before minutes in which the source may change
    write_sources(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        config = Path("mypy.ini")
        config.write_text(MYPY_CONFIG.format(folder=folder, version=f"{sys.version_info[0]}.{sys.version_info[1]}"))
        files = [f"coterie/{file}" for file in module_files()]
        extensions = mypycify(
            ["--config-file", str(config), *files],
            only_compile_paths=files,
            opt_level="1",
            debug_level="0",
            multi_file=True,
            separate=[(files, name) for name, files in grouped().items()],
            target_dir="c",
        )
        for extension in extensions:
            # Each file of a group defines what it uses of other groups; calls within a group need no table.
            extension.extra_compile_args += ["-fcommon", "-fvisibility=hidden"]
        command = Distribution({"name": "coterie", "ext_modules": extensions}).get_command_obj("build_ext")
        command.inplace, command.build_temp = True, "c"
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    for file in files:
        shutil.copyfile(SOURCE.parent / file, folder / file)
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    made = [folder / f"{group}__mypyc{suffix}" for group in grouped()]
    made += [(folder / file[:-3]).with_suffix(suffix) for file in files]
    modules = "".join(f"{path.relative_to(folder)}\n" for path in made)
    (folder / "modules.txt").write_text(modules, "utf-8")
    (folder / STAMP).write_text(of_source, "utf-8")
    os.utime(folder / STAMP, (begun_s, begun_s))  # `./run` compares it with the times of the sources


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    if not is_fresh(target):
        build(target)
