// kafkajs: what its admin, producer and consumer return. `node kafkajs_client.js NODE_MODULES HOST:PORT`.
"use strict";

const fs = require("fs");
const path = require("path");
const [modules, address] = process.argv.slice(2);
const { Kafka, logLevel } = require(path.join(modules, "kafkajs"));

const { topic: TOPIC, group: GROUP, transaction: TRANSACTION, partitions: PARTITIONS, records: RECORDS, settings } =
  JSON.parse(fs.readFileSync(0, "utf8"));
const READ_MS = 15000;
const SETTLED_MS = 10000;
const TOPIC_RESOURCE = 2;
const BROKER_RESOURCE = 4;

const print = (line) => process.stdout.write(JSON.stringify(line) + "\n");

async function step(name, work) {
  let result;
  try {
    result = await work();
  } catch (error) {
    print({ step: name, raised: error.type || error.name });
    return undefined;
  }
  print({ step: name, returned: result === undefined ? null : plain(result) });
  return result;
}

const plain = (value) =>
  JSON.parse(
    JSON.stringify(value, (_, item) => {
      if (item && item.type === "Buffer") return Buffer.from(item.data).toString();
      return typeof item === "bigint" ? item.toString() : item;
    })
  );

// A change reaches the brokers of Apache Kafka a moment after its answer.
async function until(work, text) {
  const end = Date.now() + SETTLED_MS;
  for (;;) {
    const result = await work();
    if (JSON.stringify(plain(result)).includes(text) || Date.now() > end) return result;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function topicSteps(admin) {
  const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }));
  const topics = [{ topic: TOPIC, numPartitions: PARTITIONS, replicationFactor: 1, configEntries }];
  await step("create a topic with every setting", () => admin.createTopics({ topics }));
  await step("create it again", () => admin.createTopics({ topics }));
  const wrong = [{ topic: "wrong", numPartitions: 1, configEntries: [{ name: "retention.ms", value: "soon" }] }];
  await step("create a topic with a wrong setting", () => admin.createTopics({ topics: wrong }));
  await step("list topics", () => admin.listTopics());
  await step("describe the topic", () => admin.fetchTopicMetadata({ topics: [TOPIC] }));
  const resources = [{ type: TOPIC_RESOURCE, name: TOPIC }];
  const described = () => admin.describeConfigs({ includeSynonyms: true, resources });
  await step("describe its settings", described);
  const some = [{ type: TOPIC_RESOURCE, name: TOPIC, configNames: ["retention.ms", "min.insync.replicas"] }];
  await step("describe two settings", () => admin.describeConfigs({ resources: some }));
  const altered = [{ type: TOPIC_RESOURCE, name: TOPIC, configEntries: [{ name: "retention.ms", value: "7200000" }] }];
  await step("alter", () => admin.alterConfigs({ validateOnly: false, resources: altered }));
  await step("describe after that", () => until(described, "7200000"));
  const broker = [{ type: BROKER_RESOURCE, name: "1", configNames: ["message.max.bytes", "log.retention.hours"] }];
  await step("describe the broker's settings", () => admin.describeConfigs({ resources: broker }));
  await step("describe the cluster", () => admin.describeCluster());
}

async function recordSteps(kafka, admin) {
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  for (let n = 0; n < RECORDS; n++) {
    const messages = [{ key: `k${n}`, value: `v${n}`, partition: n % PARTITIONS }];
    await step(`produce ${n}`, () => producer.send({ topic: TOPIC, messages }));
  }
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: GROUP });
  await consumer.connect();
  await consumer.subscribe({ topic: TOPIC, fromBeginning: true });
  await step("consume as a group", () => read(consumer));
  await step("describe a group", () => admin.describeGroups([GROUP]));
  const offsets = [...Array(PARTITIONS).keys()].map((partition) => ({ topic: TOPIC, partition, offset: "4" }));
  await step("commit", () => consumer.commitOffsets(offsets));
  await consumer.disconnect();
  await step("list groups", () => admin.listGroups());
  await step("a group's offsets", () => admin.fetchOffsets({ groupId: GROUP, topics: [TOPIC] }));
  await step("the topic's offsets", () => admin.fetchTopicOffsets(TOPIC));
  await step("offsets for times", () => admin.fetchTopicOffsetsByTimestamp(TOPIC, 1));
  const one = [{ partition: 0, offset: "3" }];
  await step("set a group's offsets", () => admin.setOffsets({ groupId: GROUP, topic: TOPIC, partitions: one }));
  await step("reset a group's offsets", () => admin.resetOffsets({ groupId: GROUP, topic: TOPIC, earliest: true }));
  await step("a group's offsets after that", () => admin.fetchOffsets({ groupId: GROUP, topics: [TOPIC] }));
  const records = (offset) => ({ topic: TOPIC, partitions: [{ partition: 0, offset }] });
  await step("delete records", () => admin.deleteTopicRecords(records("2")));
  await step("delete too many records", () => admin.deleteTopicRecords(records("99")));
}

async function read(consumer) {
  const records = [];
  await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("not every record came")), READ_MS);
    const eachMessage = async ({ partition, message }) => {
      records.push([partition, Number(message.offset), message.key.toString(), message.value.toString()]);
      if (records.length === RECORDS) {
        clearTimeout(timer);
        resolve();
      }
    };
    consumer.run({ autoCommit: false, eachMessage }).catch(reject);
  });
  return records.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
}

async function transactionSteps(kafka, admin) {
  const producer = kafka.producer({ transactionalId: TRANSACTION, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const end of ["commit", "abort"]) {
    const transaction = await producer.transaction();
    const messages = [{ key: "t", value: "in a transaction", partition: 1 }];
    await step(`send, to ${end}`, () => transaction.send({ topic: TOPIC, messages }));
    const topics = [{ topic: TOPIC, partitions: [{ partition: 0, offset: "7" }] }];
    await step(`send offsets, to ${end}`, () => transaction.sendOffsets({ consumerGroupId: "transactional", topics }));
    await step(`${end} it`, () => transaction[end]());
  }
  await producer.disconnect();
  const offsets = () => admin.fetchOffsets({ groupId: "transactional", topics: [TOPIC] });
  await step("committed with the transaction", () => until(offsets, '"7"'));
  await step("the topic's offsets after transactions", () => admin.fetchTopicOffsets(TOPIC));
}

async function endingSteps(admin) {
  const grown = (count) => ({ topicPartitions: [{ topic: TOPIC, count }] });
  await step("create partitions", () => admin.createPartitions(grown(PARTITIONS + 1)));
  await step("create fewer partitions", () => admin.createPartitions(grown(1)));
  await step("access control lists", () =>
    admin.describeAcls({ resourceType: 2, resourcePatternType: 3, operation: 1, permissionType: 1 })
  );
  await step("delete the group", () => admin.deleteGroups([GROUP]));
  await step("delete a group that there is not", () => admin.deleteGroups(["nobody"]));
  await step("delete the topic", () => admin.deleteTopics({ topics: [TOPIC] }));
  await step("delete it again", () => admin.deleteTopics({ topics: [TOPIC] }));
}

async function main() {
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.NOTHING, retry: { retries: 3 } });
  const admin = kafka.admin();
  await admin.connect();
  await topicSteps(admin);
  await recordSteps(kafka, admin);
  await transactionSteps(kafka, admin);
  await endingSteps(admin);
  await admin.disconnect();
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
