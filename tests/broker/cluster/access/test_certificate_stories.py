"""A group works on three brokers by mutual TLS, in virtual time, while the brokers' certificate expires and is renewed."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from coterie.broker.connections.listener_tls import ListenerTls
from coterie.client.admin.admin import Admin
from coterie.client.consumer.consumer import Consumer
from coterie.client.errors import SslAuthenticationError
from coterie.client.producer.producer import Producer
from coterie.simulation.escapes import EPOCH_S
from coterie.testing.cluster_brokers import ClusterBrokers
from coterie.testing.faults import Faults
from coterie.testing.local_broker import DEFAULTS
from coterie.testing.security.certificates import write_secret
from coterie.testing.simulated import SimulatedWorld, _BrokerProcess
from tests.broker.cluster.access.test_access_stories import Work

pytestmark = pytest.mark.slow

LASTS_S = 60.0
IN_SYNC_S = 8.0  # until a broker that starts is in each ISR
BEGINNING = datetime.datetime.fromtimestamp(EPOCH_S, datetime.UTC)


class Certificates:
    """An authority; a client's certificate; the brokers', which is renewed by replacing its file."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self._folder = folder
        self._authority.cert_pem.write_to_path(folder / "ca.pem")
        self._write("client", "client", 365 * 86_400)

    def renew(self, lasts_s: float) -> None:
        """Until so many seconds after the world's beginning."""
        self._write("broker", *(f"broker-{number}" for number in (1, 2, 3)), lasts_s)

    def _write(self, file: str, *names: str | float) -> None:
        *hosts, lasts_s = names
        last = BEGINNING + datetime.timedelta(seconds=float(lasts_s))
        first = BEGINNING - datetime.timedelta(days=1)
        issued = self._authority.issue_cert(*map(str, hosts), not_before=first, not_after=last)
        write_secret(self._folder / f"{file}.pem", issued.private_key_and_cert_chain_pem.bytes())

    def files(self, side: str) -> dict[str, str]:
        names = {"ssl.keystore.location": f"{side}.pem", "ssl.truststore.location": "ca.pem"}
        return {name: str(self._folder / file) for name, file in names.items()}


class CertifiedWork(Work):
    """Whose clients have a certificate in the place of a password."""

    certificates: Certificates

    def alice(self, password: str) -> dict[str, str]:
        return {"bootstrap.servers": self.servers, "security.protocol": "SSL", **self.certificates.files("client")}


@asynccontextmanager
async def working(world: SimulatedWorld, certificates: Certificates) -> AsyncIterator[CertifiedWork]:
    settings = DEFAULTS | {
        "listeners": "SSL://:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        "offsets.topic.replication.factor": "3",
        **certificates.files("broker"),
    }
    cluster = ClusterBrokers(
        settings, 3, (), Faults(), [], lambda cluster, number, rack: _BrokerProcess(world, cluster, number, rack)
    )
    await cluster.start()
    servers = ",".join(f"{one.host}:{one.port}" for one in cluster.brokers.values())
    own = {"bootstrap.servers": servers, "security.protocol": "SSL", **certificates.files("client")}
    async with Admin(own) as admin, Producer(own | {"acks": "all"}) as producer:
        await admin.create_topic("t", 3, replication_factor=3)
        work = CertifiedWork(cluster, servers, admin, producer)
        work.certificates = certificates
        yield work
    await cluster.stop()


def in_sync(work: Work) -> set[int]:
    """The brokers that are in the ISR of each partition of t."""
    states = work.cluster.brokers[1].broker.cluster.states
    return set.intersection(*(set(state.isr) for (topic, _), state in states.items() if topic == "t"))


async def read_on(work: Work, consumer: Consumer[bytes, bytes]) -> None:
    """With a consumer that may have been refused a connection to broker 3: it has the error once, and goes on."""
    try:
        await work.read_all(consumer)
    except SslAuthenticationError:
        await work.read_all(consumer)


async def story(world: SimulatedWorld, certificates: Certificates) -> None:
    certificates.renew(LASTS_S)
    async with working(world, certificates) as work, work.consumer("") as consumer:
        await work.write()
        await work.read_all(consumer)
        await asyncio.sleep(LASTS_S + 1 - world.now_s)

        # Open connections stay, as TLS knows no end of them; none can be opened.
        await work.write()
        await work.read_all(consumer)
        with pytest.raises(SslAuthenticationError, match="certificate has expired"):
            async with Admin(work.alice("")) as admin:
                await admin.describe_cluster()
        await work.cluster.brokers[3].kill()
        await work.cluster.brokers[3].start()
        await asyncio.sleep(IN_SYNC_S)
        assert in_sync(work) == {1, 2}

        certificates.renew(365 * 86_400)
        await asyncio.sleep(IN_SYNC_S)
        assert in_sync(work) == {1, 2, 3}
        await work.write()
        await read_on(work, consumer)
        await consumer.close()
        await work.write()
        async with work.consumer("") as another:
            await work.read_all(another)


def test_a_certificate_expires_and_is_renewed_while_its_group_works(
    coterie_world: SimulatedWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No record is lost or read twice; a broker that starts meanwhile is in sync once the file is another one."""
    with caplog.at_level(logging.INFO, "coterie.broker"):
        coterie_world.run(story(coterie_world, Certificates(tmp_path)), 1_200)
    assert "the listener SSL has other certificates" in caplog.text
    assert "certificate has expired" in caplog.text


def test_the_story_fails_where_a_listener_keeps_its_certificates(
    coterie_world: SimulatedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ListenerTls, "context", lambda self: self._context)
    with pytest.raises(AssertionError, match="1, 2, 3"):
        coterie_world.run(story(coterie_world, Certificates(tmp_path)), 1_200)
