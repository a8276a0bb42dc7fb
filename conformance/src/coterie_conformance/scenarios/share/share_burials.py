"""Steps of scenarios about dead letters (tests/spec/share): a topic, a log, and the course of one burial.

== a_letter_has_the_context_of_its_record
topic dlq.orders
bury 3 x5 spent show=headers
    append to dlq.orders-0: 3
        __dlq.errors.topic=orders ...
    buried

``create=`` and ``append=`` are the errors of those steps in their order; NONE is that of all that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

from coterie.records.encoding import encode_batch
from coterie.share.dead_letters import (
    DELIVERY_COUNT_EXCEEDED,
    PAUSES,
    REJECTED,
    AppendLetters,
    Copying,
    CreateTopic,
    DeadLetterTopic,
    DeadRecords,
    LetterSource,
    Look,
    PauseBurial,
    ReadRecords,
    bury,
)
from coterie.wire.errors import ErrorCode
from coterie_conformance.scenarios.groups.scenario import ScenarioError

Options = dict[str, str]
_REASONS = {"rejected": REJECTED, "spent": DELIVERY_COUNT_EXCEEDED}


class ShareBurials:
    """The dead letter topic and the source of a scenario; ``trace`` gets the steps."""

    def __init__(self, trace: Callable[[str], None]) -> None:
        self._trace = trace
        self._topic = DeadLetterTopic("")
        self._new_partitions = 1
        self._log: list[bytes] = []
        self.verbs: dict[str, Callable[[list[str], Options], None]] = {
            "topic": self._set_topic,
            "log": self._append,
            "bury": self._bury,
        }

    def _set_topic(self, words: list[str], options: Options) -> None:
        """``topic NAME partitions=1 max=1048576 enabled=yes prefix= creates=no copies=no new=1``; none with partitions=0"""
        partitions = int(options.get("partitions", 1))
        self._topic = DeadLetterTopic(
            words[0] if words else "",
            options.get("exists", "yes" if partitions else "no") == "yes",
            options.get("enabled", "yes") == "yes",
            partitions,
            int(options.get("max", 1_048_576)),
            options.get("prefix", ""),
            options.get("creates", "no") == "yes",
            options.get("copies", "no") == "yes",
        )
        self._new_partitions = int(options.get("new", 1))

    def _append(self, words: list[str], options: Options) -> None:
        """``log OFFSET:KEY:VALUE... codec=0``: one batch of the source; ``*300`` after a value repeats it"""
        items = []
        for word in words:
            _, key, value = word.split(":")
            text, _, times = value.partition("*")
            items.append((0, key.encode() or None, text.encode() * int(times or 1), ()))
        base_offset = int(words[0].split(":")[0])
        self._log.append(encode_batch(items, codec=int(options.get("codec", 0)), base_offset=base_offset))

    def _bury(self, words: list[str], options: Options) -> None:
        """``bury FIRST-LAST xCOUNT rejected|spent partition=0 create=CODE,... append=CODE,... show=headers``"""
        first, _, last = words[0].partition("-")
        records = DeadRecords(int(first), int(last or first), int(words[1].lstrip("x")), _REASONS[words[2]])
        source = LetterSource("billing", "orders", int(options.get("partition", 0)))
        codes = {step: _codes(options.get(step, "")) for step in ("create", "append")}
        steps, result = bury(source, records), None
        while True:
            try:
                effect = steps.send(result)
            except StopIteration as end:
                self._trace(f"given up: {end.value}" if end.value else "buried")
                return
            result = self._carry_out(effect, codes, options)

    def _carry_out(self, effect: Any, codes: dict[str, Iterator[ErrorCode]], options: Options) -> Any:
        match effect:
            case Look():
                return self._topic
            case CreateTopic():
                code = next(codes["create"])
                self._trace(f"create {effect.name}: {code.name}")
                if code == ErrorCode.NONE:
                    self._topic = replace(self._topic, exists=True, is_enabled=True, partitions=self._new_partitions)
                return code
            case ReadRecords():
                copying = Copying(effect.first, effect.last, effect.max_bytes)
                for batch in self._log:
                    copying.take(batch)
                copied = copying.result()
                self._trace(f"read {effect.first}-{effect.last} in {effect.max_bytes} bytes: up to {copied.last}")
                return copied
            case AppendLetters():
                code = next(codes["append"])
                self._trace(f"append to {effect.topic}-{effect.partition}, {code.name}")
                for letter in effect.letters:
                    self._trace(f"    {_letter_text(letter, options)}")
                return code
            case PauseBurial():
                self._trace(f"pause of {PAUSES.pause_ms(effect.failures)} ms")
                return None
            case _:
                raise ScenarioError(f"{effect} is no step of a burial")


def _codes(text: str) -> Iterator[ErrorCode]:
    return chain((ErrorCode[name] for name in text.split(",") if name), repeat(ErrorCode.NONE))


def _letter_text(letter: Any, options: Options) -> str:
    headers = dict(letter.headers)
    parts = [headers["__dlq.errors.offset"].decode()]
    if letter.key is not None or letter.value is not None:
        value = letter.value if letter.value is None or len(letter.value) < 20 else f"{len(letter.value)} bytes"
        parts.append(f"{letter.key!r} {value!r}")
    if options.get("show") == "headers":
        parts = [f"{name}={(value or b'').decode()!r}" for name, value in letter.headers]
    return " ".join(parts)
