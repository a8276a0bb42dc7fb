"""The commands of part `tools`, in the order in which they are run: later ones see what earlier ones did."""

from __future__ import annotations

from coterie_conformance.tools.settings_commands import TOPICS_AND_SETTINGS
from coterie_conformance.tools.table import NEW, OLD, Accepted, Compare, ToolCommand

_GUESS = Accepted(
    "coterie serves the newest version of each API that it has, but not those of Raft",
    r"at least v3\.9",
)
_SHARED = Compare.SHARED_KEYS | Compare.ANY_ORDER
_MASKED = Compare.NUMBERS_MASKED | Compare.ANY_ORDER
_FEATURES = Accepted(
    "coterie's features are its own: no Raft",
    r"exit 0\n(?s:.*)Feature: metadata\.version .* FinalizedVersionLevel: (4\.4-IV2|UNKNOWN 33) ",
)
_DISABLED = Accepted(
    "Kafka 3.9 takes an unknown feature at level 0 for disabled; coterie refuses, as 4.3", "exit 1", OLD
)
_MATCH = Accepted("Kafka 3.9 leaves an empty list out; coterie prints it, as 4.3", r"\nmatch=\n", OLD)
_QUORUM = Accepted("coterie has no Raft quorum; DescribeQuorum is not advertised", "UnsupportedVersionException")
_VERSIONS = Accepted("part `everything` compares the versions of each API", r"exit 0\n(?s:.*)Produce\(0\): 0 to 1\d ")

_RECORDS = (
    ToolCommand("kafka-console-producer --topic with.dot_and-dash", stdin="one\ntwo\nthree\n"),
    ToolCommand(
        "kafka-console-producer --topic tuned --property parse.key=true --property key.separator=: --compression-codec gzip",
        stdin="k1:v1\nk2:v2\n",
    ),
    ToolCommand("kafka-console-producer --topic with.dot_and-dash --sync --compression-codec zstd", stdin="four\n"),
    ToolCommand("kafka-console-producer --topic nowhere --max-block-ms 1500", stdin="lost\n"),
    ToolCommand("kafka-console-producer --topic strict --request-required-acks all --timeout 1000", stdin="refused\n"),
    ToolCommand(
        "kafka-console-consumer --topic with.dot_and-dash --from-beginning --max-messages 3 --group reader",
        compare=Compare.ANY_ORDER,
    ),
    ToolCommand(
        "kafka-console-consumer --topic tuned --from-beginning --max-messages 2 --group reader-2 --property print.key=true "
        "--property print.offset=true --property print.partition=true --property print.headers=true"
    ),
    ToolCommand("kafka-console-consumer --topic records --partition 1 --offset 7 --max-messages 3"),
    ToolCommand("kafka-console-consumer --topic records --partition 1 --offset latest --timeout-ms 1000"),
    ToolCommand(
        "kafka-console-consumer --topic ledger --from-beginning --isolation-level read_committed --timeout-ms 3000 --group r3 "
        "--consumer-property enable.auto.commit=false"
    ),
    ToolCommand("kafka-console-consumer --topic ledger --from-beginning --max-messages 2 --group r4"),
    ToolCommand(
        "kafka-console-consumer --include 'record.*' --from-beginning --max-messages 30 --group r5",
        compare=Compare.ANY_ORDER,
    ),
    ToolCommand("kafka-console-consumer --topic nowhere --timeout-ms 1500 --group r6"),
    ToolCommand(
        "kafka-console-consumer --topic __consumer_offsets --partition 0 --offset earliest --timeout-ms 2000 --formatter "
        "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
        compare=_SHARED,
    ),
    ToolCommand(
        "kafka-producer-perf-test --topic with.dot_and-dash --num-records 200 --record-size 100 --throughput -1 "
        "--producer-props bootstrap.servers={server} client.id=perf",
        compare=Compare.NUMBERS_MASKED,
    ),
    ToolCommand(
        "kafka-consumer-perf-test --topic records --messages 20 --group perf --timeout 10000",
        compare=Compare.NUMBERS_MASKED,
    ),
    ToolCommand("kafka-e2e-latency {server} empty 20 1 100", compare=Compare.NUMBERS_MASKED),
    ToolCommand("kafka-get-offsets", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-get-offsets --topic records --time earliest"),
    ToolCommand("kafka-get-offsets --topic records --time latest"),
    ToolCommand("kafka-get-offsets --topic records --time max-timestamp"),
    ToolCommand("kafka-get-offsets --topic records --time -4"),
    ToolCommand("kafka-get-offsets --topic records --time -5"),
    ToolCommand("kafka-get-offsets --topic records --time 1700000005000"),
    ToolCommand("kafka-get-offsets --topic-partitions records:0-2,tuned --time latest", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-get-offsets --topic records --partitions 0,2"),
    ToolCommand("kafka-get-offsets --topic records --partitions 7"),
    ToolCommand("kafka-get-offsets --exclude-internal-topics --topic '.*'", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-get-offsets --topic nowhere"),
    ToolCommand("kafka-delete-records --offset-json-file {folder}/delete.json"),
    ToolCommand("kafka-delete-records --offset-json-file {folder}/delete-beyond.json"),
    ToolCommand("kafka-delete-records --offset-json-file {folder}/delete-missing.json", limit_s=4),
    ToolCommand("kafka-get-offsets --topic records --time earliest", when="records deleted"),
    ToolCommand("kafka-log-dirs --describe --topic-list records,empty", compare=Compare.NUMBERS_MASKED),
    ToolCommand("kafka-log-dirs --describe --broker-list 1 --topic-list nowhere", compare=Compare.NUMBERS_MASKED),
    ToolCommand("kafka-log-dirs --describe --broker-list 1,9"),
    ToolCommand("kafka-dump-log --files {data}/records-1/00000000000000000000.log --print-data-log"),
    ToolCommand(
        "kafka-dump-log --files {data}/records-2/00000000000000000000.log --deep-iteration --skip-record-metadata"
    ),
    ToolCommand(
        "kafka-dump-log --files {data}/ledger-0/00000000000000000000.log --print-data-log",
        compare=Compare.NUMBERS_MASKED,
    ),
    ToolCommand(
        "kafka-dump-log --files {data}/__consumer_offsets-0/00000000000000000000.log --offsets-decoder",
        limit_s=60,
        compare=_MASKED,
    ),
    ToolCommand(
        "kafka-dump-log --files {data}/__transaction_state-0/00000000000000000000.log --transaction-log-decoder",
        compare=_MASKED,
    ),
)

_GROUPS = (
    ToolCommand("kafka-consumer-groups --list", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-consumer-groups --list --state", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-consumer-groups --list --state Stable", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-consumer-groups --list --state Odd"),
    ToolCommand("kafka-consumer-groups --list --type", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-consumer-groups --list --type classic", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-consumer-groups --list --type consumer", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-consumer-groups --describe --group active"),
    ToolCommand("kafka-consumer-groups --describe --group active --offsets --verbose"),
    ToolCommand("kafka-consumer-groups --describe --group active --members"),
    ToolCommand("kafka-consumer-groups --describe --group active --members --verbose"),
    ToolCommand("kafka-consumer-groups --describe --group active --state"),
    ToolCommand("kafka-consumer-groups --describe --group active --state --verbose"),
    ToolCommand("kafka-consumer-groups --describe --group former"),
    ToolCommand("kafka-consumer-groups --describe --group former --members"),
    ToolCommand("kafka-consumer-groups --describe --group former --state"),
    ToolCommand("kafka-consumer-groups --describe --group nobody"),
    ToolCommand("kafka-consumer-groups --describe --group nobody --members"),
    ToolCommand("kafka-consumer-groups --describe --group nobody --state"),
    ToolCommand("kafka-consumer-groups --describe --all-groups", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-consumer-groups --describe --all-groups --state", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-consumer-groups --describe --all-groups --members", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-consumer-groups --validate-regex 'rec.*'", versions=NEW),
    ToolCommand("kafka-groups --list", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand("kafka-groups --list --consumer", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand("kafka-groups --list --share", versions=NEW),
    ToolCommand("kafka-groups --list --streams", versions=NEW),
    ToolCommand("kafka-groups --list --group-type classic", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand("kafka-groups --list --protocol consumer", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand("kafka-consumer-groups --reset-offsets --group former --topic records --to-earliest --dry-run"),
    ToolCommand("kafka-consumer-groups --reset-offsets --group former --topic records --to-earliest --execute"),
    ToolCommand("kafka-consumer-groups --reset-offsets --group former --topic records --to-latest --execute"),
    ToolCommand("kafka-consumer-groups --reset-offsets --group former --topic records:0,2 --to-offset 5 --execute"),
    ToolCommand("kafka-consumer-groups --reset-offsets --group former --topic records:0 --to-offset 999 --execute"),
    ToolCommand("kafka-consumer-groups --reset-offsets --group former --topic records --shift-by -2 --execute"),
    ToolCommand(
        "kafka-consumer-groups --reset-offsets --group former --topic records --to-datetime 2023-11-14T22:13:25.000 --execute"
    ),
    ToolCommand("kafka-consumer-groups --reset-offsets --group former --topic records --by-duration PT1H --execute"),
    ToolCommand("kafka-consumer-groups --reset-offsets --group former --topic records --to-current --execute"),
    ToolCommand("kafka-consumer-groups --reset-offsets --group former --from-file {folder}/offsets.csv --execute"),
    ToolCommand("kafka-consumer-groups --reset-offsets --group former --all-topics --to-current --export"),
    ToolCommand("kafka-consumer-groups --reset-offsets --group fresh --topic records --to-earliest --execute"),
    ToolCommand("kafka-consumer-groups --reset-offsets --group former --topic nowhere --to-earliest --execute"),
    ToolCommand("kafka-consumer-groups --reset-offsets --group active --topic records --to-earliest --execute"),
    ToolCommand("kafka-consumer-groups --delete-offsets --group former --topic records:1"),
    ToolCommand("kafka-consumer-groups --delete-offsets --group former --topic nowhere"),
    ToolCommand("kafka-consumer-groups --delete-offsets --group active --topic records"),
    ToolCommand("kafka-consumer-groups --delete-offsets --group nobody --topic records"),
    ToolCommand("kafka-consumer-groups --describe --group former --offsets", when="offsets deleted"),
    ToolCommand("kafka-consumer-groups --delete --group former --group fresh"),
    ToolCommand("kafka-consumer-groups --delete --group active"),
    ToolCommand("kafka-consumer-groups --delete --group nobody"),
)

_TRANSACTIONS = (
    ToolCommand("kafka-transactions list", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-transactions list --duration-filter 3600000"),
    ToolCommand("kafka-transactions list --transactional-id-pattern 'op.*'", versions=NEW),
    ToolCommand("kafka-transactions describe --transactional-id open"),
    ToolCommand("kafka-transactions describe --transactional-id done"),
    ToolCommand("kafka-transactions describe --transactional-id nobody"),
    ToolCommand("kafka-transactions describe-producers --topic ledger --partition 0"),
    ToolCommand("kafka-transactions describe-producers --topic records --partition 0"),
    ToolCommand("kafka-transactions describe-producers --topic nowhere --partition 0", limit_s=4),
    ToolCommand("kafka-transactions find-hanging --broker-id 1"),
    ToolCommand("kafka-transactions find-hanging --topic ledger --max-transaction-timeout 0"),
    ToolCommand("kafka-transactions abort --topic ledger --partition 0 --start-offset 77"),
    ToolCommand("kafka-transactions abort --topic ledger --partition 0 --start-offset 2"),
    ToolCommand("kafka-transactions forceTerminateTransaction --transactionalId open", versions=NEW),
    ToolCommand("kafka-transactions describe --transactional-id open", when="ended by force", versions=NEW),
    ToolCommand("kafka-transactions describe-producers --topic ledger --partition 0", when="aborted"),
    ToolCommand("kafka-get-offsets --topic ledger --time latest", when="aborted"),
    ToolCommand(
        "kafka-console-consumer --topic ledger --partition 0 --offset earliest --isolation-level read_committed "
        "--timeout-ms 2000",
        when="aborted",
    ),
    ToolCommand("kafka-dump-log --files {data}/ledger-0/00000000000000000000.txnindex", when="aborted"),
)

_CLUSTER = (
    ToolCommand("kafka-reassign-partitions --topics-to-move-json-file {folder}/topics.json --broker-list 1 --generate"),
    ToolCommand("kafka-reassign-partitions --topics-to-move-json-file {folder}/topics.json --broker-list 9 --generate"),
    ToolCommand("kafka-reassign-partitions --reassignment-json-file {folder}/reassign.json --execute"),
    ToolCommand("kafka-reassign-partitions --reassignment-json-file {folder}/reassign.json --verify"),
    ToolCommand("kafka-reassign-partitions --reassignment-json-file {folder}/reassign.json --cancel"),
    ToolCommand(
        "kafka-reassign-partitions --reassignment-json-file {folder}/reassign.json --execute --throttle 1000000",
        when="throttled",
    ),
    ToolCommand("kafka-reassign-partitions --reassignment-json-file {folder}/reassign.json --verify", when="throttled"),
    ToolCommand("kafka-reassign-partitions --reassignment-json-file {folder}/reassign-unknown.json --execute"),
    ToolCommand("kafka-reassign-partitions --reassignment-json-file {folder}/reassign-missing.json --execute"),
    ToolCommand("kafka-reassign-partitions --list"),
    ToolCommand("kafka-leader-election --election-type preferred --all-topic-partitions"),
    ToolCommand("kafka-leader-election --election-type preferred --topic orders --partition 0"),
    ToolCommand("kafka-leader-election --election-type unclean --path-to-json-file {folder}/elect.json"),
    ToolCommand("kafka-leader-election --election-type preferred --path-to-json-file {folder}/elect-missing.json"),
    ToolCommand("kafka-acls --list"),
    ToolCommand("kafka-acls --list --topic orders"),
    ToolCommand("kafka-acls --add --allow-principal User:anna --operation Read --topic orders"),
    ToolCommand("kafka-acls --remove --force --allow-principal User:anna --operation Read --topic orders"),
    ToolCommand("kafka-features describe", accepted=_FEATURES),
    ToolCommand("kafka-features upgrade --feature no.such.feature=1"),
    ToolCommand("kafka-features upgrade --feature metadata.version=1"),
    ToolCommand("kafka-features upgrade --release-version 3.7-IV0 --dry-run", versions=NEW),
    ToolCommand("kafka-features downgrade --feature group.version=0 --dry-run"),
    ToolCommand("kafka-features disable --feature no.such.feature", accepted=_DISABLED),
    ToolCommand("kafka-features version-mapping --release-version 3.9", versions=NEW),
    ToolCommand("kafka-features feature-dependencies --feature transaction.version=2", versions=NEW),
    ToolCommand("kafka-metadata-quorum describe --status", accepted=_QUORUM),
    ToolCommand("kafka-metadata-quorum describe --replication", accepted=_QUORUM),
    ToolCommand(
        "kafka-metadata-quorum remove-controller --controller-id 9 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ",
        accepted=_QUORUM,
    ),
    ToolCommand("kafka-cluster cluster-id"),
    ToolCommand("kafka-cluster unregister --id 9"),
    ToolCommand("kafka-cluster list-endpoints", versions=NEW),
    ToolCommand("kafka-broker-api-versions", accepted=_VERSIONS),
    ToolCommand("kafka-client-metrics --alter --name watch2 --metrics org.apache.kafka.producer. --interval 30000"),
    ToolCommand("kafka-client-metrics --describe --name watch2", accepted=_MATCH),
    ToolCommand("kafka-client-metrics --describe", accepted=_MATCH),
    ToolCommand("kafka-client-metrics --list"),
    ToolCommand("kafka-client-metrics --delete --name watch2"),
    ToolCommand(
        "kafka-delegation-tokens --create --max-life-time-period -1 --command-config {folder}/client.properties"
    ),
    ToolCommand("kafka-delegation-tokens --describe --command-config {folder}/client.properties"),
    ToolCommand(
        "kafka-delegation-tokens --renew --renew-time-period -1 --hmac YWJj --command-config {folder}/client.properties"
    ),
    ToolCommand(
        "kafka-delegation-tokens --expire --expiry-time-period -1 --hmac YWJj --command-config {folder}/client.properties"
    ),
    ToolCommand(
        "kafka-replica-verification --topics-include records --report-interval-ms 500",
        limit_s=4,
        compare=Compare.NUMBERS_MASKED,
    ),
    ToolCommand("kafka-streams-application-reset --application-id former-app --input-topics records --dry-run"),
    ToolCommand("kafka-streams-application-reset --application-id former-app --input-topics nowhere"),
)

_READ = "kafka-console-share-consumer --topic records --group jobs --timeout-ms 5000"
_SHARE_GROUPS = (
    ToolCommand(
        "kafka-share-groups --reset-offsets --group jobs --topic records --to-earliest --dry-run", versions=NEW
    ),
    ToolCommand("kafka-share-groups --describe --group jobs", when="only tried", versions=NEW),
    ToolCommand(
        "kafka-share-groups --reset-offsets --group jobs --topic records --to-earliest --execute", versions=NEW
    ),
    ToolCommand("kafka-share-groups --describe --group jobs", when="reset", versions=NEW),
    ToolCommand(_READ, when="all records", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand("kafka-share-groups --describe --group jobs", when="all read", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand(
        "kafka-share-groups --describe --group jobs --offsets --verbose", versions=NEW, compare=Compare.ANY_ORDER
    ),
    ToolCommand("kafka-share-groups --describe --group jobs --members", versions=NEW),
    ToolCommand("kafka-share-groups --describe --group jobs --members --verbose", versions=NEW),
    ToolCommand("kafka-share-groups --describe --group jobs --state", versions=NEW),
    ToolCommand("kafka-share-groups --describe --group jobs --state --verbose", versions=NEW),
    ToolCommand("kafka-share-groups --describe --all-groups --state", versions=NEW),
    ToolCommand("kafka-share-groups --list --state", versions=NEW),
    ToolCommand("kafka-share-groups --list --state Stable", versions=NEW),
    ToolCommand("kafka-groups --list --share", when="with one", versions=NEW),
    ToolCommand("kafka-consumer-groups --describe --group jobs", versions=NEW),
    ToolCommand("kafka-streams-groups --describe --group jobs", versions=NEW),
    ToolCommand("kafka-share-groups --describe --group former", versions=NEW),
    ToolCommand(
        "kafka-share-groups --reset-offsets --group jobs --topic records --to-datetime 2023-11-14T22:13:25.000 --execute",
        versions=NEW,
        compare=Compare.ANY_ORDER,
    ),
    ToolCommand(f"{_READ} --reject --property print.offset=true", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand("kafka-share-groups --describe --group jobs", when="rejected", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand("kafka-share-groups --reset-offsets --group jobs --all-topics --to-latest --execute", versions=NEW),
    ToolCommand("kafka-share-groups --reset-offsets --group jobs --topic nowhere --to-latest --execute", versions=NEW),
    ToolCommand(
        "kafka-share-groups --reset-offsets --group former --topic records --to-latest --execute", versions=NEW
    ),
    ToolCommand("kafka-share-groups --delete-offsets --group jobs --topic nowhere", versions=NEW),
    ToolCommand("kafka-share-groups --delete-offsets --group nobody --topic records", versions=NEW),
    ToolCommand("kafka-share-groups --delete-offsets --group jobs --topic records", versions=NEW),
    ToolCommand("kafka-share-groups --describe --group jobs", when="offsets deleted", versions=NEW),
    ToolCommand(
        "kafka-configs --alter --entity-type groups --entity-name perf-jobs --add-config share.auto.offset.reset=earliest",
        versions=NEW,
    ),
    ToolCommand(
        "kafka-share-consumer-perf-test --topic records --messages 20 --group perf-jobs --timeout 10000",
        versions=NEW,
        compare=Compare.NUMBERS_MASKED,
    ),
    ToolCommand("kafka-share-groups --delete --group jobs", versions=NEW),
    ToolCommand(
        "kafka-share-groups --delete --group perf-jobs --group nobody", versions=NEW, compare=Compare.ANY_ORDER
    ),
)

_STREAMS_GROUPS = (
    ToolCommand("kafka-streams-groups --list", when="with two", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand("kafka-streams-groups --list --state", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand("kafka-groups --list --streams", when="with two", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand("kafka-streams-groups --describe --group app", when="with a member", versions=NEW),
    ToolCommand("kafka-streams-groups --describe --group app --offsets --verbose", versions=NEW),
    ToolCommand("kafka-streams-groups --describe --group app --members", versions=NEW),
    ToolCommand("kafka-streams-groups --describe --group app --members --verbose", versions=NEW),
    ToolCommand("kafka-streams-groups --describe --group app --state", versions=NEW),
    ToolCommand("kafka-streams-groups --describe --group app --state --verbose", versions=NEW),
    ToolCommand("kafka-streams-groups --describe --group former-app", versions=NEW),
    ToolCommand("kafka-streams-groups --describe --group former-app --state", versions=NEW),
    ToolCommand("kafka-streams-groups --describe --all-groups --state", versions=NEW, compare=Compare.ANY_ORDER),
    ToolCommand("kafka-consumer-groups --describe --group app", versions=NEW),
    ToolCommand(
        "kafka-streams-groups --reset-offsets --group former-app --input-topic records --to-latest --dry-run",
        versions=NEW,
        compare=Compare.ANY_ORDER,
    ),
    ToolCommand(
        "kafka-streams-groups --reset-offsets --group former-app --input-topic records --to-offset 5 --execute",
        versions=NEW,
        compare=Compare.ANY_ORDER,
    ),
    ToolCommand(
        "kafka-streams-groups --reset-offsets --group former-app --all-input-topics --to-earliest --execute",
        versions=NEW,
        compare=Compare.ANY_ORDER,
    ),
    ToolCommand(
        "kafka-streams-groups --reset-offsets --group app --input-topic records --to-earliest --execute", versions=NEW
    ),
    ToolCommand("kafka-streams-groups --delete-offsets --group former-app --input-topic records", versions=NEW),
    ToolCommand("kafka-streams-groups --delete-offsets --group app --input-topic records", versions=NEW),
    ToolCommand("kafka-streams-groups --describe --group former-app", when="offsets deleted", versions=NEW),
    ToolCommand("kafka-streams-groups --delete --group app", when="with a member", versions=NEW),
    ToolCommand("kafka-streams-groups --delete --group former-app", versions=NEW),
)

_OTHER_GROUPS = (
    ToolCommand("kafka-share-groups --list", versions=NEW),
    ToolCommand("kafka-share-groups --describe --group shared", versions=NEW),
    ToolCommand("kafka-share-groups --describe --all-groups", versions=NEW),
    ToolCommand("kafka-share-groups --delete --group shared", versions=NEW),
    ToolCommand("kafka-console-share-consumer --topic records --group shared --timeout-ms 2000", versions=NEW),
    ToolCommand("kafka-streams-groups --list", versions=NEW),
    ToolCommand("kafka-streams-groups --describe --group nobody", versions=NEW),
    ToolCommand("kafka-streams-groups --delete --group nobody", versions=NEW),
)

# Other programs of Kafka's world: tools_programs.
_PROGRAMS = (
    ToolCommand("spring-kafka-admin"),
    ToolCommand("franz-go-version-guess", accepted=_GUESS),
    ToolCommand("mirror-maker-2", versions=OLD),
)

COMMANDS = (
    *TOPICS_AND_SETTINGS,
    *_RECORDS,
    *_GROUPS,
    *_TRANSACTIONS,
    *_CLUSTER,
    *_SHARE_GROUPS,
    *_STREAMS_GROUPS,
    *_OTHER_GROUPS,
    *_PROGRAMS,
)
