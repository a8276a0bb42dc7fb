"""The commands of part `tools`, in the order in which they are run: later ones see what earlier ones did."""

from __future__ import annotations

from coterie.conformance.tools_settings_commands import TOPICS_AND_SETTINGS
from coterie.conformance.tools_table import NEW, OLD, Accepted, Command, Compare

_GUESS = Accepted(
    "AddPartitionsToTxn 4, which between brokers checks transactions, came with Kafka 3.6 and is not served",
    r"between v3\.5 and v3\.6",
)
_SHARED = Compare.SHARED_KEYS | Compare.ANY_ORDER
_MASKED = Compare.NUMBERS_MASKED | Compare.ANY_ORDER
_FEATURES = Accepted(
    "coterie's features are its own: no Raft, share groups, streams groups, nor transactions of version 2",
    r"exit 0\n(?s:.*)Feature: metadata\.version .* FinalizedVersionLevel: (4\.3-IV0|UNKNOWN 30) ",
)
_DISABLED = Accepted(
    "Kafka 3.9 takes an unknown feature at level 0 for disabled; coterie refuses, as 4.3", "exit 1", OLD
)
_MATCH = Accepted("Kafka 3.9 leaves an empty list out; coterie prints it, as 4.3", r"\nmatch=\n", OLD)
_QUORUM = Accepted("coterie has no Raft quorum; DescribeQuorum is not advertised", "UnsupportedVersionException")
_SHARE = Accepted("coterie has no share groups (KIP-932)", "UnsupportedVersionException")
_VERSIONS = Accepted("part `everything` compares the versions of each API", r"exit 0\n(?s:.*)Produce\(0\): 0 to 1\d ")
_STREAMS = Accepted("coterie has no groups of the streams protocol (KIP-1071)", "UnsupportedVersionException")

_RECORDS = (
    Command("kafka-console-producer --topic with.dot_and-dash", stdin="one\ntwo\nthree\n"),
    Command(
        "kafka-console-producer --topic tuned --property parse.key=true --property key.separator=: --compression-codec gzip",
        stdin="k1:v1\nk2:v2\n",
    ),
    Command("kafka-console-producer --topic with.dot_and-dash --sync --compression-codec zstd", stdin="four\n"),
    Command("kafka-console-producer --topic nowhere --max-block-ms 1500", stdin="lost\n"),
    Command("kafka-console-producer --topic strict --request-required-acks all --timeout 1000", stdin="refused\n"),
    Command(
        "kafka-console-consumer --topic with.dot_and-dash --from-beginning --max-messages 3 --group reader",
        compare=Compare.ANY_ORDER,
    ),
    Command(
        "kafka-console-consumer --topic tuned --from-beginning --max-messages 2 --group reader-2 --property print.key=true "
        "--property print.offset=true --property print.partition=true --property print.headers=true"
    ),
    Command("kafka-console-consumer --topic records --partition 1 --offset 7 --max-messages 3"),
    Command("kafka-console-consumer --topic records --partition 1 --offset latest --timeout-ms 1000"),
    Command(
        "kafka-console-consumer --topic ledger --from-beginning --isolation-level read_committed --timeout-ms 3000 --group r3 "
        "--consumer-property enable.auto.commit=false"
    ),
    Command("kafka-console-consumer --topic ledger --from-beginning --max-messages 2 --group r4"),
    Command(
        "kafka-console-consumer --include 'record.*' --from-beginning --max-messages 30 --group r5",
        compare=Compare.ANY_ORDER,
    ),
    Command("kafka-console-consumer --topic nowhere --timeout-ms 1500 --group r6"),
    Command(
        "kafka-console-consumer --topic __consumer_offsets --partition 0 --offset earliest --timeout-ms 2000 --formatter "
        "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
        compare=_SHARED,
    ),
    Command(
        "kafka-producer-perf-test --topic with.dot_and-dash --num-records 200 --record-size 100 --throughput -1 "
        "--producer-props bootstrap.servers={server} client.id=perf",
        compare=Compare.NUMBERS_MASKED,
    ),
    Command(
        "kafka-consumer-perf-test --topic records --messages 20 --group perf --timeout 10000",
        compare=Compare.NUMBERS_MASKED,
    ),
    Command("kafka-e2e-latency {server} empty 20 1 100", compare=Compare.NUMBERS_MASKED),
    Command("kafka-get-offsets", compare=Compare.ANY_ORDER),
    Command("kafka-get-offsets --topic records --time earliest"),
    Command("kafka-get-offsets --topic records --time latest"),
    Command("kafka-get-offsets --topic records --time max-timestamp"),
    Command("kafka-get-offsets --topic records --time -4"),
    Command("kafka-get-offsets --topic records --time -5"),
    Command("kafka-get-offsets --topic records --time 1700000005000"),
    Command("kafka-get-offsets --topic-partitions records:0-2,tuned --time latest", compare=Compare.ANY_ORDER),
    Command("kafka-get-offsets --topic records --partitions 0,2"),
    Command("kafka-get-offsets --topic records --partitions 7"),
    Command("kafka-get-offsets --exclude-internal-topics --topic '.*'", compare=Compare.ANY_ORDER),
    Command("kafka-get-offsets --topic nowhere"),
    Command("kafka-delete-records --offset-json-file {folder}/delete.json"),
    Command("kafka-delete-records --offset-json-file {folder}/delete-beyond.json"),
    Command("kafka-delete-records --offset-json-file {folder}/delete-missing.json", limit_s=4),
    Command("kafka-get-offsets --topic records --time earliest", when="records deleted"),
    Command("kafka-log-dirs --describe --topic-list records,empty", compare=Compare.NUMBERS_MASKED),
    Command("kafka-log-dirs --describe --broker-list 1 --topic-list nowhere", compare=Compare.NUMBERS_MASKED),
    Command("kafka-log-dirs --describe --broker-list 1,9"),
    Command("kafka-dump-log --files {data}/records-1/00000000000000000000.log --print-data-log"),
    Command("kafka-dump-log --files {data}/records-2/00000000000000000000.log --deep-iteration --skip-record-metadata"),
    Command(
        "kafka-dump-log --files {data}/ledger-0/00000000000000000000.log --print-data-log",
        compare=Compare.NUMBERS_MASKED,
    ),
    Command(
        "kafka-dump-log --files {data}/__consumer_offsets-0/00000000000000000000.log --offsets-decoder",
        limit_s=60,
        compare=_MASKED,
    ),
    Command(
        "kafka-dump-log --files {data}/__transaction_state-0/00000000000000000000.log --transaction-log-decoder",
        compare=_MASKED,
    ),
)

_GROUPS = (
    Command("kafka-consumer-groups --list", compare=Compare.ANY_ORDER),
    Command("kafka-consumer-groups --list --state", compare=Compare.ANY_ORDER),
    Command("kafka-consumer-groups --list --state Stable", compare=Compare.ANY_ORDER),
    Command("kafka-consumer-groups --list --state Odd"),
    Command("kafka-consumer-groups --list --type", compare=Compare.ANY_ORDER),
    Command("kafka-consumer-groups --list --type classic", compare=Compare.ANY_ORDER),
    Command("kafka-consumer-groups --list --type consumer", compare=Compare.ANY_ORDER),
    Command("kafka-consumer-groups --describe --group active"),
    Command("kafka-consumer-groups --describe --group active --offsets --verbose"),
    Command("kafka-consumer-groups --describe --group active --members"),
    Command("kafka-consumer-groups --describe --group active --members --verbose"),
    Command("kafka-consumer-groups --describe --group active --state"),
    Command("kafka-consumer-groups --describe --group active --state --verbose"),
    Command("kafka-consumer-groups --describe --group former"),
    Command("kafka-consumer-groups --describe --group former --members"),
    Command("kafka-consumer-groups --describe --group former --state"),
    Command("kafka-consumer-groups --describe --group nobody"),
    Command("kafka-consumer-groups --describe --group nobody --members"),
    Command("kafka-consumer-groups --describe --group nobody --state"),
    Command("kafka-consumer-groups --describe --all-groups", compare=Compare.ANY_ORDER),
    Command("kafka-consumer-groups --describe --all-groups --state", compare=Compare.ANY_ORDER),
    Command("kafka-consumer-groups --describe --all-groups --members", compare=Compare.ANY_ORDER),
    Command("kafka-consumer-groups --validate-regex 'rec.*'", versions=NEW),
    Command("kafka-groups --list", versions=NEW, compare=Compare.ANY_ORDER),
    Command("kafka-groups --list --consumer", versions=NEW, compare=Compare.ANY_ORDER),
    Command("kafka-groups --list --share", versions=NEW),
    Command("kafka-groups --list --streams", versions=NEW),
    Command("kafka-groups --list --group-type classic", versions=NEW, compare=Compare.ANY_ORDER),
    Command("kafka-groups --list --protocol consumer", versions=NEW, compare=Compare.ANY_ORDER),
    Command("kafka-consumer-groups --reset-offsets --group former --topic records --to-earliest --dry-run"),
    Command("kafka-consumer-groups --reset-offsets --group former --topic records --to-earliest --execute"),
    Command("kafka-consumer-groups --reset-offsets --group former --topic records --to-latest --execute"),
    Command("kafka-consumer-groups --reset-offsets --group former --topic records:0,2 --to-offset 5 --execute"),
    Command("kafka-consumer-groups --reset-offsets --group former --topic records:0 --to-offset 999 --execute"),
    Command("kafka-consumer-groups --reset-offsets --group former --topic records --shift-by -2 --execute"),
    Command(
        "kafka-consumer-groups --reset-offsets --group former --topic records --to-datetime 2023-11-14T22:13:25.000 --execute"
    ),
    Command("kafka-consumer-groups --reset-offsets --group former --topic records --by-duration PT1H --execute"),
    Command("kafka-consumer-groups --reset-offsets --group former --topic records --to-current --execute"),
    Command("kafka-consumer-groups --reset-offsets --group former --from-file {folder}/offsets.csv --execute"),
    Command("kafka-consumer-groups --reset-offsets --group former --all-topics --to-current --export"),
    Command("kafka-consumer-groups --reset-offsets --group fresh --topic records --to-earliest --execute"),
    Command("kafka-consumer-groups --reset-offsets --group former --topic nowhere --to-earliest --execute"),
    Command("kafka-consumer-groups --reset-offsets --group active --topic records --to-earliest --execute"),
    Command("kafka-consumer-groups --delete-offsets --group former --topic records:1"),
    Command("kafka-consumer-groups --delete-offsets --group former --topic nowhere"),
    Command("kafka-consumer-groups --delete-offsets --group active --topic records"),
    Command("kafka-consumer-groups --delete-offsets --group nobody --topic records"),
    Command("kafka-consumer-groups --describe --group former --offsets", when="offsets deleted"),
    Command("kafka-consumer-groups --delete --group former --group fresh"),
    Command("kafka-consumer-groups --delete --group active"),
    Command("kafka-consumer-groups --delete --group nobody"),
)

_TRANSACTIONS = (
    Command("kafka-transactions list", compare=Compare.ANY_ORDER),
    Command("kafka-transactions list --duration-filter 3600000"),
    Command("kafka-transactions list --transactional-id-pattern 'op.*'", versions=NEW),
    Command("kafka-transactions describe --transactional-id open"),
    Command("kafka-transactions describe --transactional-id done"),
    Command("kafka-transactions describe --transactional-id nobody"),
    Command("kafka-transactions describe-producers --topic ledger --partition 0"),
    Command("kafka-transactions describe-producers --topic records --partition 0"),
    Command("kafka-transactions describe-producers --topic nowhere --partition 0", limit_s=4),
    Command("kafka-transactions find-hanging --broker-id 1"),
    Command("kafka-transactions find-hanging --topic ledger --max-transaction-timeout 0"),
    Command("kafka-transactions abort --topic ledger --partition 0 --start-offset 77"),
    Command("kafka-transactions abort --topic ledger --partition 0 --start-offset 2"),
    Command("kafka-transactions forceTerminateTransaction --transactionalId open", versions=NEW),
    Command("kafka-transactions describe --transactional-id open", when="ended by force", versions=NEW),
    Command("kafka-transactions describe-producers --topic ledger --partition 0", when="aborted"),
    Command("kafka-get-offsets --topic ledger --time latest", when="aborted"),
    Command(
        "kafka-console-consumer --topic ledger --partition 0 --offset earliest --isolation-level read_committed "
        "--timeout-ms 2000",
        when="aborted",
    ),
    Command("kafka-dump-log --files {data}/ledger-0/00000000000000000000.txnindex", when="aborted"),
)

_CLUSTER = (
    Command("kafka-reassign-partitions --topics-to-move-json-file {folder}/topics.json --broker-list 1 --generate"),
    Command("kafka-reassign-partitions --topics-to-move-json-file {folder}/topics.json --broker-list 9 --generate"),
    Command("kafka-reassign-partitions --reassignment-json-file {folder}/reassign.json --execute"),
    Command("kafka-reassign-partitions --reassignment-json-file {folder}/reassign.json --verify"),
    Command("kafka-reassign-partitions --reassignment-json-file {folder}/reassign.json --cancel"),
    Command(
        "kafka-reassign-partitions --reassignment-json-file {folder}/reassign.json --execute --throttle 1000000",
        when="throttled",
    ),
    Command("kafka-reassign-partitions --reassignment-json-file {folder}/reassign.json --verify", when="throttled"),
    Command("kafka-reassign-partitions --reassignment-json-file {folder}/reassign-unknown.json --execute"),
    Command("kafka-reassign-partitions --reassignment-json-file {folder}/reassign-missing.json --execute"),
    Command("kafka-reassign-partitions --list"),
    Command("kafka-leader-election --election-type preferred --all-topic-partitions"),
    Command("kafka-leader-election --election-type preferred --topic orders --partition 0"),
    Command("kafka-leader-election --election-type unclean --path-to-json-file {folder}/elect.json"),
    Command("kafka-leader-election --election-type preferred --path-to-json-file {folder}/elect-missing.json"),
    Command("kafka-acls --list"),
    Command("kafka-acls --list --topic orders"),
    Command("kafka-acls --add --allow-principal User:anna --operation Read --topic orders"),
    Command("kafka-acls --remove --force --allow-principal User:anna --operation Read --topic orders"),
    Command("kafka-features describe", accepted=_FEATURES),
    Command("kafka-features upgrade --feature no.such.feature=1"),
    Command("kafka-features upgrade --feature metadata.version=1"),
    Command("kafka-features upgrade --release-version 3.7-IV0 --dry-run", versions=NEW),
    Command("kafka-features downgrade --feature group.version=0 --dry-run"),
    Command("kafka-features disable --feature no.such.feature", accepted=_DISABLED),
    Command("kafka-features version-mapping --release-version 3.9", versions=NEW),
    Command("kafka-features feature-dependencies --feature transaction.version=2", versions=NEW),
    Command("kafka-metadata-quorum describe --status", accepted=_QUORUM),
    Command("kafka-metadata-quorum describe --replication", accepted=_QUORUM),
    Command(
        "kafka-metadata-quorum remove-controller --controller-id 9 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ",
        accepted=_QUORUM,
    ),
    Command("kafka-cluster cluster-id"),
    Command("kafka-cluster unregister --id 9"),
    Command("kafka-cluster list-endpoints", versions=NEW),
    Command("kafka-broker-api-versions", accepted=_VERSIONS),
    Command("kafka-client-metrics --alter --name watch2 --metrics org.apache.kafka.producer. --interval 30000"),
    Command("kafka-client-metrics --describe --name watch2", accepted=_MATCH),
    Command("kafka-client-metrics --describe", accepted=_MATCH),
    Command("kafka-client-metrics --list"),
    Command("kafka-client-metrics --delete --name watch2"),
    Command("kafka-delegation-tokens --create --max-life-time-period -1 --command-config {folder}/client.properties"),
    Command("kafka-delegation-tokens --describe --command-config {folder}/client.properties"),
    Command(
        "kafka-delegation-tokens --renew --renew-time-period -1 --hmac YWJj --command-config {folder}/client.properties"
    ),
    Command(
        "kafka-delegation-tokens --expire --expiry-time-period -1 --hmac YWJj --command-config {folder}/client.properties"
    ),
    Command(
        "kafka-replica-verification --topics-include records --report-interval-ms 500",
        limit_s=4,
        compare=Compare.NUMBERS_MASKED,
    ),
    Command("kafka-streams-application-reset --application-id former-app --input-topics records --dry-run"),
    Command("kafka-streams-application-reset --application-id former-app --input-topics nowhere"),
)

_OTHER_GROUPS = (
    Command("kafka-share-groups --list", versions=NEW),
    Command("kafka-share-groups --describe --group shared", versions=NEW, accepted=_SHARE),
    Command("kafka-share-groups --describe --all-groups", versions=NEW),
    Command("kafka-share-groups --delete --group shared", versions=NEW),
    Command(
        "kafka-console-share-consumer --topic records --group shared --timeout-ms 2000", versions=NEW, accepted=_SHARE
    ),
    Command("kafka-streams-groups --list", versions=NEW),
    Command("kafka-streams-groups --describe --group app", versions=NEW, accepted=_STREAMS),
    Command("kafka-streams-groups --delete --group app", versions=NEW),
)

# Other programs of Kafka's world: tools_programs.
_PROGRAMS = (
    Command("spring-kafka-admin"),
    Command("franz-go-version-guess", accepted=_GUESS),
    Command("mirror-maker-2", versions=OLD),
)

COMMANDS = (
    *TOPICS_AND_SETTINGS,
    *_RECORDS,
    *_GROUPS,
    *_TRANSACTIONS,
    *_CLUSTER,
    *_OTHER_GROUPS,
    *_PROGRAMS,
)
