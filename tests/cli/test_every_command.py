"""Every command of the click tree, asked what a person gets wrong: no arguments, a wrong option or command, a file that is
not there, a broker that is away. Each ends with a sentence and the exit code of its kind, and never with a traceback."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner

import coterie.cli.parts.exit_codes
from coterie.cli import EPILOG, main

AWAY = "127.0.0.1:1"
# Commands without a required argument that do their work at once.
WORK_AT_ONCE = {
    "demo": "starts a broker, consumers and Spark",
    "lab handover": "runs the laboratory; tests/cli/test_output.py runs a small one",
    "lab migration": "runs the laboratory",
    "lab study": "runs for half an hour",
    "mcp": "serves its standard input, which is empty; a tool's response says that the broker is away",
    "wire": "prints the APIs; the test runs it",
}
ANY_INTEGER = {"seed", "first"}  # a seed may be negative
# The first word of a help text: a verb.
VERBS = frozenset(
    """Add Check Compare Copy Count Create Delete Elect Explain Export Feed Kill List Make Measure Move Print Read
    Remove Replay Run See Set Show Start Stop Take Test Turn Watch Write""".replace("\n", " ").split(" ")
)


class Ended(NamedTuple):
    """How a command ended, and all that it wrote."""

    code: int
    output: str

    @property
    def sentence(self) -> str:
        """The last line, which is the error."""
        return self.output.rstrip().rpartition("\n")[2]


def ended(*words: str, env: Mapping[str, str | None] = {"COTERIE_BOOTSTRAP_SERVER": AWAY}, typed: str = "") -> Ended:
    result = CliRunner(env=env).invoke(main, words, prog_name="coterie", input=typed)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    return Ended(result.exit_code, result.output)


def tree(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            member = command.get_command(click.Context(command), name)
            assert member is not None
            yield from tree(member, (*words, name))


EVERY = dict(tree(main))
GROUPS = {words: command for words, command in EVERY.items() if isinstance(command, click.Group)}
LEAVES = {words: command for words, command in EVERY.items() if words not in GROUPS}


def name_of(words: object) -> str:
    return " ".join(words) or "coterie" if isinstance(words, tuple) else str(words)


each_command = pytest.mark.parametrize("words", EVERY, ids=name_of)
each_group = pytest.mark.parametrize("words", GROUPS, ids=name_of)
each_leaf = pytest.mark.parametrize("words", LEAVES, ids=name_of)


def options(command: click.Command) -> list[click.Option]:
    return [p for p in command.params if isinstance(p, click.Option)]


def required(command: click.Command) -> list[click.Parameter]:
    return [p for p in command.params if p.required]


def filled(command: click.Command, folder: Path) -> list[str]:
    """Valid values of the required parameters."""
    words: list[str] = []
    for parameter in required(command):
        if isinstance(parameter, click.Option):
            words.append(parameter.opts[-1] if parameter.opts[-1].startswith("--") else parameter.opts[0])
        words.append(value(parameter.type, folder))
    return words


def value(kind: click.ParamType, folder: Path) -> str:
    if isinstance(kind, click.Choice):
        return str(kind.choices[0])
    if isinstance(kind, click.Path):
        return str(folder / ("empty" if kind.exists else "out"))
    return str(kind.min) if isinstance(kind, click.IntRange) else "a"


# -- help ---------------------------------------------------------------------------------------------------------------


@each_command
def test_help_begins_with_a_verb_and_explains_every_option(words: tuple[str, ...]) -> None:
    code, output = ended(*words, "--help")
    assert code == 0
    assert output.startswith(f"Usage: {' '.join(('coterie', *words))} ")
    text = EVERY[words].help or ""
    assert re.split(r"[\s,.:]", text)[0] in VERBS or not words, text.split("\n")[0]
    assert not [option.name for option in options(EVERY[words]) if not option.help]


@each_group
def test_the_list_of_commands_shows_each_sentence_whole(words: tuple[str, ...]) -> None:
    commands = ended(*words, "--help").output.partition("Commands:")[2].partition("\n\n")[0]
    assert commands
    assert not re.findall(r".*\.\.\.$", commands, re.M)


@each_command
def test_help_fits_eighty_columns(words: tuple[str, ...]) -> None:
    lines = ended(*words, "--help", env={"COLUMNS": "80"}).output.split("\n")
    assert [line for line in lines if len(line) > 80] == []


@each_command
def test_help_has_no_name_of_a_click_class(words: tuple[str, ...]) -> None:
    assert " RANGE" not in ended(*words, "--help").output


def test_every_exit_code_is_documented() -> None:
    codes = set(re.findall(r"^(\d+) ", coterie.cli.parts.exit_codes.__doc__ or "", re.M))
    assert codes == {"0", "1", "2", "3", "130", "141"}
    assert codes <= set(re.findall(r"\b\d+\b", EPILOG.partition("Exit codes:")[2]))


# -- wrong arguments ----------------------------------------------------------------------------------------------------


@each_command
def test_a_wrong_option(words: tuple[str, ...]) -> None:
    code, output = ended(*words, "--no-such-option")
    assert (code, "No such option" in output, "--no-such-option" in output) == (2, True, True)
    assert f"Try '{' '.join(('coterie', *words))} --help' for help." in output


@each_command
def test_a_misspelt_option_names_the_one_that_was_meant(words: tuple[str, ...]) -> None:
    for option in options(EVERY[words]):
        name = max(option.opts, key=len)
        code, output = ended(*words, name[:-2] + name[-1])
        assert (code, name in output) == (2, True), output


@each_command
def test_a_number_that_is_none(words: tuple[str, ...]) -> None:
    for parameter in EVERY[words].params:
        if not isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType):
            continue
        for text in ("x", "1.5x", "nan", "inf", *(["-1"] if parameter.name not in ANY_INTEGER else [])):
            given = [text] if isinstance(parameter, click.Argument) else [f"{max(parameter.opts, key=len)}={text}"]
            before = ["JoinGroupRequest"] if words == ("wire",) else []
            end = ended(*words, *before, "--", *given) if before else ended(*words, *given)
            assert (end.code, text in end.sentence, "range." in end.sentence) == (2, True, False), end


@each_group
def test_a_group_without_a_command_shows_what_it_has(words: tuple[str, ...]) -> None:
    code, output = ended(*words)
    assert code == 2
    names = GROUPS[words].list_commands(click.Context(GROUPS[words]))
    assert all(re.search(rf"^  {name} ", output, re.M) for name in names)


@each_group
def test_a_wrong_command_names_the_one_that_was_meant_or_all(words: tuple[str, ...]) -> None:
    names = GROUPS[words].list_commands(click.Context(GROUPS[words]))
    for name in names:
        code, output = ended(*words, name + "x")
        assert (code, f"Did you mean {name}?" in output) == (2, True), output
    code, output = ended(*words, "0000")
    assert (code, output.rstrip().endswith(f"There are {', '.join(names)}.")) == (2, True), output


@each_leaf
def test_no_arguments(words: tuple[str, ...], tmp_path: Path) -> None:
    """Usage names what is missing; a command that needs nothing asks its broker."""
    command = LEAVES[words]
    if " ".join(words) in WORK_AT_ONCE and words != ("wire",):
        assert not required(command)
        return
    end = ended(*words)
    if words == ("wire",):
        assert end.code == 0
    elif required(command):
        assert end.code == 2
        first = required(command)[0]
        assert (
            first.human_readable_name.upper() if isinstance(first, click.Argument) else first.opts[0]
        ) in end.sentence
    elif end.code == 1:
        assert AWAY in end.sentence
    else:
        assert (end.code, end.sentence.startswith("Error: ")) == (2, True), end


@each_leaf
def test_a_path_that_is_not_there_or_of_the_other_kind(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "progress.json").write_text("{}")  # a history, for --history
    (tmp_path / "file").write_text("")
    command = LEAVES[words]
    for parameter in command.params:
        if not isinstance(parameter.type, click.Path):
            continue
        kind = parameter.type
        wrong = [tmp_path / "nowhere" / "x"] if kind.exists else []
        wrong += [tmp_path / "file"] if not kind.file_okay else []
        wrong += [tmp_path / "empty"] if not kind.dir_okay else []
        for path in wrong:
            given = [str(path)] if isinstance(parameter, click.Argument) else [parameter.opts[0], str(path)]
            others = [p for p in required(command) if p is not parameter]
            rest = filled(click.Command("rest", params=others), tmp_path)
            end = ended(*words, *rest, *given)
            assert (end.code, str(path) in end.sentence) == (2, True), end


# -- a broker that is away ----------------------------------------------------------------------------------------------

ASKS_A_BROKER = [
    words
    for words, command in LEAVES.items()
    if any("--bootstrap-server" in p.opts for p in command.params) and " ".join(words) not in WORK_AT_ONCE
]
# What else such a command needs before it asks.
MORE = {
    "groups reset": ["--to", "earliest"],
    "groups migrate": ["--zookeeper", AWAY],
    "consume": ["--timeout-ms", "1000"],
    "groups watch": ["--times", "1"],
    "topics reassign": ["--list"],
    "acls add": ["--principal", "User:a", "--topic", "a"],
    "acls remove": ["--principal", "User:a", "--topic", "a"],
    "acls why": ["--principal", "User:a", "--topic", "a"],
    "quotas remove": ["--user", "a"],
    "quotas set": ["--user", "a", "--quota", "producer_byte_rate=1"],
}
TYPED = {"users add": "a password\n"}  # on standard input


@pytest.mark.parametrize("words", ASKS_A_BROKER, ids=name_of)
def test_a_broker_that_is_away(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    more = MORE.get(" ".join(words), [])
    given = filled(LEAVES[words], tmp_path)
    if "--zookeeper" in given:
        given = ["a"]
    end = ended(
        *words,
        *given,
        *more,
        *([] if words == ("groups", "migrate") else ["-b", AWAY]),
        typed=TYPED.get(" ".join(words), ""),
    )
    assert (end.code, end.output.count("\n")) == (1, 1), end
    assert AWAY in end.sentence
    if words != ("groups", "migrate"):
        assert "start a broker there, or name another with --bootstrap-server" in end.sentence
        assert "a" not in end.sentence.split()[0]


def test_most_commands_are_asked() -> None:
    """The walk reaches the tree: a command that is not in it, and a list that names one that is gone, are seen."""
    assert len(LEAVES) > 30
    assert len(ASKS_A_BROKER) > 15
    assert set(WORK_AT_ONCE) <= {" ".join(words) for words in LEAVES}
    assert set(MORE) <= {" ".join(words) for words in ASKS_A_BROKER}


@pytest.mark.parametrize("words", ASKS_A_BROKER, ids=name_of)
def test_an_address_that_is_none(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for address in ("nowhere", "a:b", "a:1,b", "a:99999", ""):
        given = [*filled(LEAVES[words], tmp_path), *MORE.get(" ".join(words), [])]
        end = ended(*words, *given, "-b", address)
        assert (end.code, "--bootstrap-server" in end.sentence, "HOST:PORT" in end.sentence) == (2, True, True), end


# -- a port in use ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--listen", "--http"])
def test_a_port_in_use(option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        others = [] if option == "--listen" else ["--listen", "127.0.0.1:0"]
        end = ended("broker", "--memory", *others, option, address)
    assert end.code == 1
    why = "address already in use"
    assert re.fullmatch(
        rf"Error: cannot listen on {address}(?: for HTTP)?: {why}; choose another {option}", end.sentence
    )
