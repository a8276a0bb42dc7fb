"""Builds the compiled edition: the modules below as extension modules, made by mypyc of the same source.

    python compiled_edition.py FOLDER      builds it in FOLDER/coterie, beside a copy of the source; minutes

mypyc leaves the methods of a dataclass to the interpreter, where `__init__` costs five times as much as a compiled one, and
`__eq__` makes two tuples: `write_out` gives each dataclass of these modules the same `__init__` as text, and those that are
compared often the same `__eq__` and `__hash__`, on lines that were blank, so that lines keep their numbers. mypyc knows no
decorator but `dataclass`, so that a `value` (`coterie/values.py`) becomes a frozen one.
Needs mypy, setuptools and a C compiler.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import os
import re
import shutil
import sys
import sysconfig
import time
from collections import Counter
from itertools import takewhile
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
    "assignors/blobs.py",
    "assignors/claims.py",
    "assignors/cooperation.py",
    "assignors/equal_shares.py",
    "assignors/fewest_moves.py",
    "assignors/range.py",
    "assignors/round_robin.py",
    "assignors/server_side.py",
    "assignors/sticky.py",
    "assignors/unequal_shares.py",
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
CONSTANT = re.compile("_?[A-Z][A-Z0-9_]*")
VARIED = frozenset({"MANY", "MAX_STORED_BYTES", "SWEPT_FROM"})  # constants that a test changes
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


# -- the methods of dataclasses ---------------------------------------------------------------------------------------


def compares(file: str) -> bool:
    """Whether objects of a module's classes are compared often: those of the laboratory and of the machines that it checks. A
    broker's are not, and a comparison and a hash take 3 KB of its memory for each class."""
    return any(file.partition("/")[0] in rooms for rooms in GROUPS.values())


def write_out(source: str, bases: frozenset[str] = frozenset(), *, comparisons: bool = True) -> str:
    """The source with `__init__`, and with ``comparisons`` `__eq__` and `__hash__`, in each dataclass that has fields of its
    own only, blank lines for them, and no heirs: it is not one of ``bases``."""
    source = _with_dataclasses(source)
    lines = source.split("\n")
    tree = ast.parse(source)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    imports = ["from typing import Final"] if _make_constants_final(tree, lines) else []
    for node in classes:
        if node.name in OPEN:
            imports.append("from typing import TYPE_CHECKING")
            _open_class(node, lines)
    for node in classes:
        if not node.bases and not node.keywords and node.name not in bases | OPEN:
            _write_out_class(node, lines, comparisons)
    loaded = sorted(set().union(*(_builtins_of(node) for node in classes if node.decorator_list)))
    if loaded:
        imports.append(f"from builtins import {', '.join(loaded)}")
    if imports:
        blank = lines.index("from __future__ import annotations") + 1
        assert not lines[blank], f"no blank line for {imports}"
        lines[blank] = "; ".join(dict.fromkeys(imports))
    return "\n".join(lines)


def _make_constants_final(tree: ast.Module, lines: list[str]) -> bool:
    """Declares the module's constants as such; whether there are any. mypyc looks others up by name at each use."""
    stored = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    made = False
    for node in tree.body:
        pairs = _assigned(node)
        if (
            pairs
            and all(CONSTANT.fullmatch(name) and stored[name] == 1 for name, _ in pairs)
            and not (VARIED & dict(pairs).keys())
        ):
            at, made = node.lineno - 1, True
            if isinstance(node, ast.AnnAssign):
                kind = ast.unparse(node.annotation)
                lines[at] = lines[at].replace(f": {kind} =", f": Final[{kind}] =", 1)
            elif len(pairs) == 1:
                lines[at] = lines[at].replace(" =", ": Final =", 1)
            else:
                lines[at] = "; ".join(f"{name}: Final = {ast.unparse(value)}" for name, value in pairs)
    return made


def _assigned(node: ast.stmt) -> list[tuple[str, ast.expr]]:
    """The names that a statement gives a value each, with the value's expression; none for a type, and none for an enum's
    member: what is compared with a final one is narrowed to it, and what mypy then takes for unreachable is not compiled."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return [(node.target.id, node.value)]
    if not isinstance(node, ast.Assign) or len(node.targets) > 1 or isinstance(node.value, ast.Attribute):
        return []
    if _name_of(node.value) in ("TypeVar", "ParamSpec"):
        return []
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and node.lineno == node.end_lineno:
        return [(ast.unparse(name), each) for name, each in zip(target.elts, value.elts, strict=True)]
    return []


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


def _write_out_class(node: ast.ClassDef, lines: list[str], comparisons: bool) -> None:
    decorator = next((d for d in node.decorator_list if _name_of(d) == "dataclass"), None)
    if decorator is None:
        return
    options = ast.unparse(decorator)
    constructor = _constructor(node)
    with_hash = "frozen=True" in options or "unsafe_hash=True" in options
    comparison = _comparison(node, with_hash=with_hash) if comparisons and "eq=False" not in options else []
    blanks = _blank_lines(node, lines)
    left_out = ""
    for option, methods in (("init=False, ", [constructor] if constructor else []), ("eq=False, ", comparison)):
        if methods and len(methods) <= len(blanks):
            left_out += option
            for method in methods:
                lines[blanks.pop(0)] = f"    {method}  # type: ignore[misc, return-value]"
    at = decorator.lineno - 1
    if left_out and isinstance(decorator, ast.Call):
        lines[at] = lines[at].replace("dataclass(", f"dataclass({left_out}", 1).replace(", )", ")")
    elif left_out:
        lines[at] += f"({left_out.rstrip(', ')})"


def _fields(node: ast.ClassDef) -> list[tuple[str, str, ast.expr | None]] | None:
    """Name, type and default of each field; None where one of them is not given by the object that is made."""
    fields = []
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            kind = ast.unparse(part.annotation)
            if kind.startswith(("ClassVar", "InitVar", "KW_ONLY")):
                return None
            fields.append((part.target.id, kind, part.value))
    return fields


def _options_of(value: ast.expr | None) -> dict[str | None, ast.expr]:
    """The arguments of a default that is a `field`."""
    if isinstance(value, ast.Call) and _name_of(value) == "field":
        return {keyword.arg: keyword.value for keyword in value.keywords}
    return {}


def _has_method(node: ast.ClassDef, *names: str) -> bool:
    return any(isinstance(part, ast.FunctionDef) and part.name in names for part in node.body)


def _constructor(node: ast.ClassDef) -> str | None:
    """The `__init__` that `dataclass` would make, on one line; None where that is not a matter of fields with defaults."""
    fields = _fields(node)
    if not fields or _has_method(node, "__init__", "__post_init__"):
        return None
    parameters, assignments = ["self"], []
    for name, kind, value in fields:
        options = _options_of(value)
        if options:
            factory = options.pop("default_factory", None)
            if options or factory is None or "None" in kind or isinstance(factory, ast.Lambda):
                return None
            parameters.append(f"{name}: {kind} | None = None")
            assignments.append(f"self.{name} = {ast.unparse(factory)}() if {name} is None else {name}")
        else:
            parameters.append(f"{name}: {kind}" + ("" if value is None else f" = {ast.unparse(value)}"))
            assignments.append(f"self.{name} = {name}")
    return f"def __init__({', '.join(parameters)}) -> None: {'; '.join(assignments)}"


def _comparison(node: ast.ClassDef, *, with_hash: bool) -> list[str]:
    """The `__eq__` that `dataclass` would make, and the `__hash__`, each on one line; none where the class has its own. As in
    the comparison of two tuples, what is the same object is equal."""
    fields = _fields(node)
    if fields is None or _has_method(node, "__eq__", "__hash__"):
        return []
    compared = [(name, kind) for name, kind, value in fields if "compare" not in _options_of(value)]
    equal = [
        f"self.{name} == other.{name}"
        if kind in ("bool", "bytes", "int", "str")
        else f"(self.{name} is other.{name} or self.{name} == other.{name})"
        for name, kind in compared
    ]
    text = f"({' and '.join(equal) or True}) if type(other) is {node.name} else NotImplemented"
    values = "".join(f"self.{name}, " for name, _ in compared)
    hashed = [f"def __hash__(self) -> int: return hash(({values}))"] if with_hash else []
    return [f"def __eq__(self, other: object) -> bool: return {text}", *hashed]


def _blank_lines(node: ast.ClassDef, lines: list[str]) -> list[int]:
    """The indexes of the blank lines between two statements of the class's body, and of those behind it."""
    ends = [part.end_lineno or 0 for part in node.body]
    gaps = [range(end, after.lineno - 1) for end, after in zip(ends, node.body[1:], strict=False)]
    inside = [at for gap in gaps for at in gap if not lines[at].strip()]
    behind = list(takewhile(lambda at: not lines[at].strip(), range(ends[-1], len(lines))))
    return inside + behind


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
        written = (
            native_module(file, text) if is_of_messages(file) else write_out(text, bases, comparisons=compares(file))
        )
        copy.write_text(written, "utf-8")


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
