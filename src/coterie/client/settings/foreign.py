"""The settings that Java's clients and tools and librdkafka have and coterie's clients have not, so that an error calls each by
its name, with what to use instead. Java's are without effect in Spark's options kafka.NAME, where other names are mistakes.
Facts: the ConfigDefs of Apache Kafka 4.4.0, names that older ones have, and librdkafka's page of configuration properties."""

from __future__ import annotations

_NEWEST = """
    bootstrap.controllers client.dns.lookup compression.gzip.level compression.lz4.level compression.zstd.level
    buffer.memory.allocation.strategy bootstrap.resolve.timeout.ms config.providers
    connections.max.idle.ms metadata.cluster.check.enable partitioner.rack.aware
    enable.metrics.push internal.throw.on.fetch.stable.offset.unsupported
    metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms retries sasl.client.callback.handler.class sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.oauthbearer.allow.unverified.audience
    sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.assertion.algorithm
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
    security.providers send.buffer.bytes
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.cipher.suites
    ssl.enabled.protocols ssl.engine.factory.class ssl.keymanager.algorithm ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.password ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.password
    transaction.two.phase.commit.enable
"""
_OLDER = """
    auto.include.jmx.reporter internal.auto.downgrade.txn.commit internal.leave.group.on.close
"""

JAVA_SETTINGS = frozenset((_NEWEST + _OLDER).split())

_LISTENER = "the listener of Consumer.subscribe"
_LOGGING = "Python's logging, whose logger is coterie"
_PEM = "ssl.keystore.location, a PEM file with certificate and key"
_METRICS = "the method metrics"
_BUFFER = "buffer.memory"
_PREFETCH = "fetch.max.bytes"
_RETRIES = "delivery.timeout.ms, within which a record is sent again"
_JSON = "the option --json of coterie consume"
_BY_LINE = "the option --key-separator of coterie produce"

# What does the same here, where there is anything: a setting, a method or an option.
_INSTEAD = {
    "retries": _RETRIES,
    "partitioner.class": "partitioner, a function",
    "ssl.keystore.certificate.chain": _PEM,
    "ssl.keystore.key": _PEM,
    "ssl.keystore.password": "ssl.key.password",
    "ssl.truststore.certificates": "ssl.truststore.location",
    "metric.reporters": _METRICS,
    "internal.leave.group.on.close": "group_membership_operation of Consumer.close",
}
_OF_LIBRDKAFKA = {
    "api.version.fallback.ms": "",
    "api.version.request": "",
    "api.version.request.timeout.ms": "",
    "auto.commit.enable": "enable.auto.commit",
    "background.event.cb": "",
    "batch.num.messages": "batch.size",
    "broker.address.family": "",
    "broker.address.ttl": "",
    "broker.version.fallback": "",
    "builtin.features": "",
    "closesocket.cb": "",
    "compression.codec": "compression.type",
    "compression.level": "",
    "connect.cb": "",
    "consume.callback.max.messages": "max.poll.records",
    "consume.cb": "",
    "coordinator.query.interval.ms": "",
    "debug": _LOGGING,
    "default.topic.conf": "the setting itself: there is one level of settings",
    "delivery.report.only.error": "what Producer.send returns",
    "dr.cb": "what Producer.send returns",
    "dr.msg.cb": "what Producer.send returns",
    "enable.auto.offset.store": "enable.auto.commit=false with Consumer.commit",
    "enable.gapless.guarantee": "",
    "enable.partition.eof": "Consumer.end_offsets",
    "enable.random.seed": "",
    "enable.ssl.certificate.verification": "ssl.truststore.location; of the host's name, ssl.endpoint.identification.algorithm",
    "enabled.events": "",
    "error.cb": "the error that each call raises",
    "fetch.error.backoff.ms": "retry.backoff.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.queue.backoff.ms": "",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "group.protocol.type": "",
    "https.ca.location": "",
    "interceptors": "interceptor.classes",
    "internal.termination.signal": "",
    "log.cb": _LOGGING,
    "log.connection.close": _LOGGING,
    "log.level": _LOGGING,
    "log.queue": _LOGGING,
    "log.thread.name": _LOGGING,
    "logger": _LOGGING,
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.copy.max.bytes": "",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": _RETRIES,
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "msg.order.cmp": "",
    "oauth.cb": "",
    "offset.commit.cb": "the callback of Consumer.commit_async",
    "offset.store.method": "",
    "offset.store.path": "",
    "offset.store.sync.interval.ms": "",
    "on.commit": "the callback of Consumer.commit_async",
    "on.delivery": "on_delivery of Producer.send",
    "opaque": "",
    "open.cb": "",
    "partitioner.cb": "partitioner",
    "plugin.library.paths": "interceptor.classes",
    "produce.offset.report": "what Producer.send returns",
    "queue.buffering.backpressure.threshold": "",
    "queue.buffering.max.kbytes": _BUFFER,
    "queue.buffering.max.messages": _BUFFER,
    "queue.buffering.max.ms": "linger.ms",
    "queued.max.messages.kbytes": _PREFETCH,
    "queued.min.messages": _PREFETCH,
    "queuing.strategy": "",
    "rebalance.cb": _LISTENER,
    "receive.message.max.bytes": _PREFETCH,
    "reconnect.backoff.jitter.ms": "retry.backoff.ms",
    "request.required.acks": "acks",
    "resolve.cb": "",
    "sasl.mechanisms": "sasl.mechanism",
    "socket.blocking.max.ms": "",
    "socket.cb": "",
    "socket.keepalive.enable": "",
    "socket.max.fails": "",
    "socket.nagle.disable": "",
    "socket.receive.buffer.bytes": "",
    "socket.send.buffer.bytes": "",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca": "ssl.truststore.location",
    "ssl.ca.certificate.stores": "ssl.truststore.location",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.location",
    "ssl.certificate": _PEM,
    "ssl.certificate.location": _PEM,
    "ssl.certificate.pem": _PEM,
    "ssl.crl.location": "",
    "ssl.curves.list": "",
    "ssl.engine.id": "",
    "ssl.engine.location": "",
    "ssl.key": _PEM,
    "ssl.key.location": _PEM,
    "ssl.key.pem": _PEM,
    "ssl.providers": "",
    "ssl.sigalgs.list": "",
    "statistics.interval.ms": _METRICS,
    "stats.cb": _METRICS,
    "sticky.partitioning.linger.ms": "",
    "throttle.cb": "",
    "topic.blacklist": "",
    "topic.metadata.propagation.max.ms": "",
    "topic.metadata.refresh.fast.cnt": "",
    "topic.metadata.refresh.fast.interval.ms": "retry.backoff.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "topic.metadata.refresh.sparse": "",
}
_OF_JAVA_TOOLS = {
    **dict.fromkeys(("headers.separator", "key.separator", "line.separator", "null.literal"), _JSON),
    **{f"print.{what}": _JSON for what in ("epoch", "headers", "key", "offset", "partition", "timestamp", "value")},
    **dict.fromkeys(("headers.delimiter", "headers.key.separator", "ignore.error", "null.marker"), _BY_LINE),
    **dict.fromkeys(("parse.headers", "parse.key"), _BY_LINE),
}
_OWNERS = (
    ("Java's clients", dict.fromkeys(JAVA_SETTINGS, "") | _INSTEAD),
    ("librdkafka", _OF_LIBRDKAFKA),
    ("Kafka's console tools", _OF_JAVA_TOOLS),
)


def foreign_setting(name: str) -> str | None:
    """The sentence that refuses a setting of another client or tool; None for a name that none of them has."""
    for owner, settings in _OWNERS:
        if name in settings:
            instead = settings[name]
            advice = f"use {instead}" if instead else "it would have no effect here, leave it out"
            return f"{name} is a setting of {owner}, not of coterie: {advice}"
    return None
