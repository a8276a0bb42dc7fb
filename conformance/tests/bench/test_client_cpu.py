"""Our client beside another checkout's: its rounds run, and what cannot be compared is refused. How fast is not tested."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie.text.addresses import format_address
from coterie_conformance.bench.client_cpu import OURS, client_cpu, sources_of
from coterie_conformance.bench.loads import client_rounds, load
from coterie_conformance.bench.measurement import broker
from coterie_conformance.cli import main


def test_a_checkout_is_compared_with_itself() -> None:
    (row,) = client_cpu(sources_of(OURS.parent), ["commits"], pairs=2, rounds=2)
    assert row.value > 0
    assert row.ratio is not None
    assert 0.1 < row.ratio < 10


def test_each_operation_has_its_rounds(tmp_path: Path) -> None:
    async def rounds(address: str) -> dict[str, int]:
        counts = {}
        for name, operation in client_rounds.OPERATIONS.items():
            async with operation(address) as run:
                counts[name] = await run()
        return counts

    with broker(tmp_path / "data") as (address, _):
        load.create_topic(address, client_rounds.PARTITIONS, client_rounds.TOPIC)
        load.create_topic(address, 1, client_rounds.SMALL_TOPIC)
        load.fill(address, 10)
        counts = asyncio.run(rounds(format_address(*address)))
    assert counts.keys() == client_rounds.OPERATIONS.keys()
    assert all(count >= 50 for count in counts.values())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--against", "."], "give --part clients with it"),
        (["--part", "clients", "--against", "."], "it has no folder src/coterie/client"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["bench", *arguments])
    assert result.exit_code == 2
    assert text in result.output


def test_a_checkout_without_the_compiled_decoder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("client", "records"):
        (tmp_path / "src" / "coterie" / folder).mkdir(parents=True)
    compiled = tmp_path / "ours" / "coterie" / "records"
    compiled.mkdir(parents=True)
    (compiled / "_unfold.x.so").touch()
    monkeypatch.setattr("coterie_conformance.bench.client_cpu.OURS", tmp_path / "ours")
    with pytest.raises(ValueError, match="lacks the compiled decoder"):
        sources_of(tmp_path)
