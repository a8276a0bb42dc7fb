"""--command-config: commands reach a broker behind TLS with it, and a bad file is one sentence."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.certify.recording import Recording, load, recorded_versions
from coterie.testing import LocalBroker
from tests.cli.test_every_command import ASKS_A_BROKER, LEAVES, Ended, ended, name_of, options
from tests.client.connection.test_security import TlsFront

SECRET = "open-sesame"


class Secured:
    """A broker whose only advertised address is a TLS end, and the file with which a client reaches it."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._front = TlsFront(None, folder, wants_certificate=True)
        self.address = f"127.0.0.1:{asyncio.run_coroutine_threadsafe(self._front.start(), self._loop).result(10)}"
        self._broker = LocalBroker({"advertised.listeners": self.address}).start()
        self._front.broker = self._broker
        self._broker.create_topic("orders")
        self.file = folder / "client.properties"
        self.file.write_text(
            f"security.protocol=SSL\nssl.truststore.location={self._front.ca}\n"
            f"ssl.keystore.location={self._front.client}\nrequest.timeout.ms=5000\ndefault.api.timeout.ms=10000\n"
        )

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._front.stop)
        self._broker.__exit__(None, None, None)
        self._loop.call_soon_threadsafe(self._loop.stop)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    running = Secured(tmp_path_factory.mktemp("secured"))
    yield running
    running.close()


@pytest.mark.parametrize("words", ASKS_A_BROKER, ids=name_of)
def test_every_command_that_reaches_a_broker_has_it(words: tuple[str, ...]) -> None:
    assert "--command-config" in {name for option in options(LEAVES[words]) for name in option.opts}


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("topics list", "orders"),
        ("topics describe orders", "PARTITION"),
        ("groups list", "there are no groups"),
        ("groups history crew", "the journal has no events of group crew"),
        ("cluster describe", "1 topic"),
        ("consume orders --timeout-ms 300", ""),
        ("consume orders --group crew --max-messages 1 --timeout-ms 300", ""),
        ("produce orders", "0 records acknowledged"),
    ],
)
def test_a_broker_behind_tls(secured: Secured, line: str, output: str) -> None:
    end = ended(*line.split(), "-b", secured.address, "--command-config", str(secured.file))
    assert (end.code, output in end.output) == (0, True), end


@pytest.mark.parametrize("line", ["topics list", "groups list", "cluster describe"])
def test_without_the_file(secured: Secured, line: str) -> None:
    end = ended(*line.split(), "-b", secured.address)
    assert (end.code, end.output.count("\n"), end.sentence[:6]) == (1, 1, "Error:"), end


def test_certify_behind_tls(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """One story; tests/certify/test_certify.py replays all."""
    whole = load(recorded_versions()[-1])
    one = Recording(whole.version, [story for story in whole.stories if story.rule][:1])
    monkeypatch.setattr("coterie.certify.recording.load", lambda _: one)
    end = ended("certify", "-b", secured.address, "--command-config", str(secured.file), "--json")
    assert (end.code, json.loads(end.output)["different"]) == (0, 0), end


def test_the_address_of_the_file_unless_another_is_given(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "with-address.properties"
    file.write_text(f"{secured.file.read_text()}bootstrap.servers={secured.address}\n")
    given = "topics", "list", "--command-config", str(file)
    assert "127.0.0.1:1" in ended(*given).sentence  # COTERIE_BOOTSTRAP_SERVER
    assert ended(*given, env={"COTERIE_BOOTSTRAP_SERVER": None}).code == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("security.protocl=SSL", "security.protocl"),
        ("request.timeout.ms=soon", "request.timeout.ms must be"),
        ("security.protocol=SASL_SSL", "needs sasl.username and sasl.password"),
        ("security.protocol=SSL\nssl.truststore.location=nowhere.pem", "the TLS files cannot be used"),
        ("client.id=\\u12", "is not an escape of a properties file"),
        ("security.protocol=none", "security.protocol must be"),
    ],
)
def test_a_file_that_does_not_fit(text: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"sasl.password={SECRET}\nssl.key.password={SECRET}\n{text}\n")
    end: Ended = ended("topics", "list", "--command-config", str(file))
    assert (end.code, sentence in end.sentence, str(file) in end.sentence) == (2, True, True), end
    assert SECRET not in end.output
