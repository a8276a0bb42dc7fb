"""What the control API offers: the public methods of `ControlledBroker`, each with its parameters and their JSON."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from coterie.coordinator.journal.line import JournalLine
from coterie.testing.control.values import FORMS, LAGS, RULE_NUMBER, VALUES, Json, JsonForm, Rules, one_of
from coterie.testing.faults import FAILABLE
from coterie.testing.local_broker import LocalBroker


class ControlledBroker(LocalBroker):
    """A `LocalBroker` as the control API has it: with what is an attribute, or takes a with-block, as methods."""

    def addresses(self) -> str:
        """The bootstrap.servers of clients: HOST:PORT, of a cluster those of all brokers with commas."""
        return self.bootstrap_servers

    def journal_lines(self, group: str | None = None) -> list[JournalLine]:
        """The journal since the start or the last reset, of one group or of all: objects as `coterie groups history --json` has
        them, with the causes of each rebalance."""
        return [line for line in self.journal if group in (None, line.group)]


@dataclass(frozen=True)
class Parameter:
    """``is_rest``: Python's ``*values``."""

    name: str
    form: JsonForm
    is_required: bool
    default: Json
    is_rest: bool


@dataclass(frozen=True)
class ControlOperation:
    """``method``: its name in `ControlledBroker`; ``text``: its docstring."""

    name: str
    method: str
    text: str
    parameters: tuple[Parameter, ...]
    result: JsonForm

    def run(self, broker: ControlledBroker, given: Mapping[str, Json], rules: Rules) -> Json:
        """Raises TypeError and ValueError for wrong arguments, else as the method does."""
        names = [p.name for p in self.parameters]
        unknown = [name for name in given if name not in names]
        if unknown:
            raise TypeError(f"{self.name} takes {', '.join(names) or 'nothing'}, not {unknown[0]}")
        rest: list[Any] = []
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            value = given.get(parameter.name)
            if value is None and parameter.is_required:
                raise TypeError(f"{self.name} needs {parameter.name}")
            if value is None:
                continue
            read = parameter.form.read(value, rules)
            if parameter.is_rest:
                rest = read
            else:
                values[parameter.name] = read
        method = getattr(broker, self.method)
        if rest:  # the parameters before *values are passed by position
            before = [values.pop(p.name) for p in takewhile(lambda p: not p.is_rest, self.parameters)]
            return self.result.write(method(*before, *rest, **values), rules)
        return self.result.write(method(**values), rules)


# By another name than the method's.
RENAMED = {"addresses": "bootstrap_servers", "hold_until_release": "hold", "journal_lines": "journal"}
# Public methods that are no operation.
LEFT_OUT = {
    "start": "the process does",
    "hold": "a with-block; the operation hold is hold_until_release",
    "deny": "a with-block; an admin creates ACLs",
}
_REQUIRED = {("stop", "broker_id")}  # the process stops the others
_PARAMETERS = {
    ("fail", "api"): one_of(FAILABLE),
    ("produce", "values"): VALUES,
    ("release", "rule"): RULE_NUMBER,
    ("until_held", "rule"): RULE_NUMBER,
}
_RESULTS = {"lag": LAGS}


def _form(annotation: str) -> JsonForm:
    return FORMS[annotation.removesuffix(" | None")]


def _operation(method: str) -> ControlOperation:
    function = getattr(ControlledBroker, method)
    signature = inspect.signature(function)
    parameters = [
        Parameter(
            name,
            _PARAMETERS.get((method, name)) or _form(one.annotation),
            (method, name) in _REQUIRED or one.default is inspect.Parameter.empty,
            None if one.default is inspect.Parameter.empty else one.default,
            one.kind is inspect.Parameter.VAR_POSITIONAL,
        )
        for name, one in signature.parameters.items()
        if name != "self"
    ]
    result = _RESULTS.get(method) or _form(signature.return_annotation)
    return ControlOperation(
        RENAMED.get(method, method), method, inspect.getdoc(function) or "", tuple(parameters), result
    )


def _methods() -> list[str]:
    return [
        name
        for name, _ in inspect.getmembers(ControlledBroker, inspect.isfunction)
        if not name.startswith("_") and name not in LEFT_OUT
    ]


OPERATIONS = {one.name: one for one in sorted(map(_operation, _methods()), key=lambda one: one.name)}
