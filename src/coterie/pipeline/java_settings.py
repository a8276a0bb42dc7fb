"""The settings that Java's consumer, producer or admin client has and coterie's client has not: without effect in the options
kafka.NAME, where every other name is a mistake. Facts: the ConfigDefs of Apache Kafka 4.3.0, and names that older ones have."""

from __future__ import annotations

_NEWEST = """
    bootstrap.controllers client.dns.lookup compression.gzip.level compression.lz4.level compression.zstd.level
    config.providers connections.max.idle.ms enable.metrics.push internal.throw.on.fetch.stable.offset.unsupported
    metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms retries sasl.client.callback.handler.class sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.providers send.buffer.bytes share.acknowledgement.mode
    share.acquire.mode socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.cipher.suites
    ssl.enabled.protocols ssl.engine.factory.class ssl.keymanager.algorithm ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.password ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.password
    transaction.two.phase.commit.enable
"""
_OLDER = """
    auto.include.jmx.reporter internal.auto.downgrade.txn.commit internal.leave.group.on.close
"""

JAVA_SETTINGS = frozenset((_NEWEST + _OLDER).split())
