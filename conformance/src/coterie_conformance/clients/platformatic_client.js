// @platformatic/kafka: what its Admin, Producer and Consumer return. `node platformatic_client.js NODE_MODULES HOST:PORT`.
"use strict";

const fs = require("fs");
const path = require("path");
const { setTimeout: sleep } = require("timers/promises");
const [modules, address] = process.argv.slice(2);

const words = JSON.parse(fs.readFileSync(0, "utf8"));
const { topic: TOPIC, group: GROUP, transaction: TRANSACTION, partitions: PARTITIONS, records: RECORDS, settings } = words;
const [PLAIN, CREW] = [`${TOPIC}-plain`, `${TOPIC}-shifts`];
const CREW_PARTITIONS = 4;
const READ_MS = 20000;
const SETTLED_MS = 10000;
const TOPIC_RESOURCE = 2;
const BASE = BigInt(Date.now() - 100000); // late enough that no retention removes the records
const [EARLIEST, LATEST] = [-2n, -1n];
const [READ_UNCOMMITTED, READ_COMMITTED] = [0, 1];

let kafka;

const print = (line) => process.stdout.write(JSON.stringify(line) + "\n");

async function step(name, work) {
  let result;
  try {
    result = await work();
  } catch (error) {
    print({ step: name, raised: nameOf(error) });
    return undefined;
  }
  print({ step: name, returned: result === undefined ? null : plain(result) });
  return result;
}

// Kafka's own name of an error where the client has one, else the kind of error.
const nameOf = (error) => {
  const inner = (error.errors ?? []).map(nameOf);
  return error.apiId ?? (inner.length ? `${error.code}: ${inner.join(", ")}` : (error.code ?? error.message));
};

const plain = (value) => {
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, item]) => [key, plain(item)]));
  if (value instanceof Set) return [...value].map(plain);
  if (Buffer.isBuffer(value)) return value.toString();
  if (typeof value === "bigint") return value.toString();
  if (Array.isArray(value)) return value.map(plain);
  if (value === undefined) return null;
  if (value !== null && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
  return value;
};

// A change reaches the brokers of Apache Kafka a moment after its answer.
async function until(work, text) {
  const end = Date.now() + SETTLED_MS;
  for (;;) {
    const result = await work();
    if (JSON.stringify(plain(result)).includes(text) || Date.now() > end) return result;
    await sleep(100);
  }
}

async function awaited(condition) {
  const end = Date.now() + READ_MS;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error("not all that was expected arrived in time");
    await sleep(20);
  }
}

const options = (more) => ({ clientId: "judge", bootstrapBrokers: [address], retries: 2, timeout: 10000, ...more });

async function topicSteps(admin) {
  const configs = Object.entries(settings).map(([name, value]) => ({ name, value }));
  // Without the topic's id, which is random.
  const create = (options) => async () => (await admin.createTopics(options)).map(({ id, ...topic }) => [id.length, topic]);
  const full = { topics: [TOPIC], partitions: PARTITIONS, replicas: 1, configs };
  await step("create a topic with every setting", create(full));
  await step("create it again", create(full));
  const wrong = [{ name: "retention.ms", value: "soon" }];
  await step("create a topic with a wrong setting", create({ topics: ["wrong"], partitions: 1, replicas: 1, configs: wrong }));
  await step("create with too many replicas", create({ topics: ["wrong"], partitions: 1, replicas: words.tooManyReplicas }));
  await step("create by the broker's defaults", create({ topics: [PLAIN], partitions: -1, replicas: -1 }));
  const brokers = [...Array(CREW_PARTITIONS).keys()].map((partition) => ({ partition, brokers: [1] }));
  await step("create by an assignment", create({ topics: [CREW], partitions: -1, replicas: -1, assignments: brokers }));
  await step("list topics", () => until(async () => (await admin.listTopics()).sort(), CREW));
  await step("metadata", async () => {
    const { topics } = await admin.metadata({ topics: [TOPIC, CREW] });
    return [...topics].map(([name, topic]) => [name, topic.partitionsCount, topic.partitions.map((p) => [p.leader, p.replicas, p.isr])]);
  });
  await step("metadata of a topic that there is not", () => admin.metadata({ topics: ["nowhere"] }));
  const resource = { resourceType: TOPIC_RESOURCE, resourceName: TOPIC };
  const described = async () => {
    const [{ configs }] = await admin.describeConfigs({ resources: [resource], includeSynonyms: true, includeDocumentation: true });
    return Object.fromEntries(configs.map((c) => [c.name, { ...c, documentation: Boolean(c.documentation) }]));
  };
  await step("describe its settings", described);
  const changes = [
    { name: "retention.ms", configOperation: 0, value: "7200000" },
    { name: "cleanup.policy", configOperation: 3, value: "compact" },
    { name: "flush.ms", configOperation: 1, value: "" },
    { name: "leader.replication.throttled.replicas", configOperation: 2, value: "1:1" },
  ];
  await step("alter incrementally", () => admin.incrementalAlterConfigs({ resources: [{ ...resource, configs: changes }] }));
  await step("describe after that", () => until(described, "7200000"));
  const replaced = [{ name: "retention.ms", value: "600000" }];
  await step("alter the old way", () => admin.alterConfigs({ resources: [{ ...resource, configs: replaced }] }));
  await step("describe after the old way", () => until(described, "600000"));
  await step("create partitions", () => admin.createPartitions({ topics: [{ name: PLAIN, count: PARTITIONS }] }));
  await step("create fewer partitions", () => admin.createPartitions({ topics: [{ name: PLAIN, count: 1 }] }));
}

async function clusterSteps(admin) {
  await step("log dirs", async () => {
    const topics = [{ name: CREW, partitions: [0, 1] }];
    const [{ results }] = await admin.describeLogDirs({ topics });
    return results.flatMap((dir) => dir.topics.flatMap((t) => t.partitions.map((p) => p.partitionIndex))).sort();
  });
  const filter = { resourceType: 2, resourceName: null, resourcePatternType: 3, principal: null, host: null, operation: 1, permissionType: 1 };
  await step("describe access control lists", () => admin.describeAcls({ filter }));
  const entities = [{ entityType: "user", entityName: "ann" }];
  const quota = (op) => () => admin.alterClientQuotas({ entries: [{ entities, ops: [op] }] });
  await step("alter quotas", quota({ key: "producer_byte_rate", value: 4096, remove: false }));
  const components = [{ entityType: "user", matchType: 0, match: "ann" }];
  await step("describe quotas", () => until(() => admin.describeClientQuotas({ components, strict: true }), "4096"));
  await step("remove quotas", quota({ key: "producer_byte_rate", remove: true }));
}

// [partition, offset, key, value, headers, timestamp] of so many records, sorted.
async function read(topic, count, more) {
  const consumer = new kafka.Consumer(options({ groupId: `${GROUP}-${Math.random()}`, maxWaitTime: 200, autocommit: false }));
  const stream = await consumer.consume({ topics: [topic], mode: "earliest", ...more });
  const records = [];
  try {
    stream.on("data", (message) => records.push(shown(message)));
    const failed = new Promise((_, reject) => stream.on("error", reject));
    await Promise.race([awaited(() => records.length >= count), failed]);
  } finally {
    await consumer.close(true);
  }
  return records.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
}

function shown({ partition, offset, key, value, headers, timestamp }) {
  const stamp = timestamp - BASE > 10000n ? -1 : Number(timestamp - BASE);
  return [partition, Number(offset), key, value?.length > 100 ? value.length : value, [...(headers ?? [])], stamp];
}

const bytes = (text) => (text === undefined ? undefined : Buffer.from(text));

async function produceSteps() {
  let count = 0;
  for (const compression of ["none", "gzip", "snappy", "lz4", "zstd"]) {
    for (const [acks, idempotent] of [[1, false], [-1, false], [-1, true]]) {
      const producer = new kafka.Producer(options({ compression, acks, idempotent }));
      const messages = ["a", "b"].map((key) => ({ topic: PLAIN, partition: 0, key: bytes(key), value: bytes("v".repeat(30)), timestamp: BASE }));
      const sent = await step(`produce with ${compression}, acks ${acks}, idempotent ${idempotent}`, () => producer.send({ messages }));
      await producer.close();
      count += sent === undefined ? 0 : messages.length; // before Node 22.15 the client has no zstd
    }
  }
  const producer = new kafka.Producer(options({ acks: -1 }));
  const send = (message) => producer.send({ messages: [{ topic: PLAIN, partition: 1, timestamp: BASE, ...message }] });
  await step("a tombstone", () => send({ key: bytes("gone") }));
  await step("without a key", () => send({ value: bytes("no key") }));
  await step("empty", () => send({ key: bytes(""), value: bytes("") }));
  await step("with headers", () => send({ value: bytes("h"), headers: new Map([[bytes("a"), bytes("1")], [bytes(""), bytes("")]]) }));
  await step("large", () => send({ value: Buffer.alloc(1000000) }));
  await step("too large", () => send({ value: Buffer.alloc(2 << 20) }));
  await step("to a topic that there is not", () => send({ topic: "nowhere", value: bytes("x") }));
  for (let n = 0; n < RECORDS; n++) {
    await step(`produce ${n}`, () => producer.send({ messages: [{ topic: TOPIC, partition: n % PARTITIONS, key: bytes(`k${n}`), value: bytes("v") }] }));
  }
  await producer.close();
  await step("read every compression and form", () => read(PLAIN, count + 5));
  const from = { mode: "manual", offsets: [{ topic: PLAIN, partition: 0, offset: 22n }, { topic: PLAIN, partition: 1, offset: 3n }] };
  await step("read from offsets", () => read(PLAIN, 4, from));
  const far = { mode: "manual", fallbackMode: "fail", offsets: [{ topic: PLAIN, partition: 0, offset: 999n }, { topic: PLAIN, partition: 1, offset: 0n }] };
  await step("read from an offset too far", () => read(PLAIN, 99, far));
}

async function offsetSteps(admin) {
  const at = (timestamp) => ({ topics: [{ name: PLAIN, partitions: [{ partitionIndex: 0, timestamp }, { partitionIndex: 1, timestamp }] }] });
  for (const [name, timestamp] of [["first", EARLIEST], ["last", LATEST], ["greatest timestamp", -3n], ["of a time", BASE]]) {
    await step(`offsets: ${name}`, () => admin.listOffsets(at(timestamp)));
  }
  const deletion = (offset) => () => admin.deleteRecords({ topics: [{ name: PLAIN, partitions: [{ partition: 0, offset }] }] });
  await step("delete records", deletion(2n));
  await step("delete too many records", deletion(999n));
  const topics = [{ name: TOPIC, partitionOffsets: [{ partition: 0, offset: 4n }, { partition: 1, offset: 2n }] }];
  await step("commit without members", () => admin.alterConsumerGroupOffsets({ groupId: GROUP, topics }));
  const committed = () => admin.listConsumerGroupOffsets({ groups: [GROUP, "nobody"] });
  await step("a group's offsets", committed);
  const gone = { groupId: GROUP, topics: [{ name: TOPIC, partitionIndexes: [1] }] };
  await step("delete a group's offset", () => admin.deleteConsumerGroupOffsets(gone));
  await step("a group's offsets after that", committed);
}

// A member of a group, and the partitions that it has.
async function join(groupId, more) {
  const member = { partitions: [], read: 0, consumer: new kafka.Consumer(options({ groupId, maxWaitTime: 100, autocommit: 100, ...more })) };
  member.consumer.on("consumer:group:join", ({ assignments }) => {
    member.partitions = (assignments ?? []).flatMap((a) => a.partitions);
  });
  const stream = await member.consumer.consume({ topics: [CREW], mode: "committed", fallbackMode: "earliest" });
  stream.on("data", () => (member.read += 1));
  stream.on("error", () => {});
  return member;
}

async function crewSteps(admin, name, more) {
  const groupId = `${GROUP}-${name}`;
  const first = await join(groupId, more);
  const has = (...counts) => () => counts.every((count, n) => [first, second][n].partitions.length === count);
  let second;
  if (name !== "consumer") await step(`${name}: one member`, () => awaited(has(CREW_PARTITIONS)));
  second = await join(groupId, more);
  if (name !== "consumer") await step(`${name}: two members`, () => awaited(has(CREW_PARTITIONS / 2, CREW_PARTITIONS / 2)));
  const producer = new kafka.Producer(options({ acks: -1 }));
  await sleep(1000);
  const messages = [...Array(RECORDS).keys()].map((n) => ({ topic: CREW, partition: n % CREW_PARTITIONS, value: bytes("x") }));
  await producer.send({ messages });
  await producer.close();
  await step(`${name}: all is read`, () => awaited(() => first.read + second.read >= RECORDS));
  if (name !== "consumer") {
    await step(`${name}: described`, async () => {
      const group = (await admin.describeGroups({ groups: [groupId], includeAuthorizedOperations: true })).get(groupId);
      return [group.state, group.protocol, group.protocolType, group.members.size, group.authorizedOperations];
    });
  }
  await step(`${name}: deleted while it has members`, () => admin.deleteGroups({ groups: [groupId] }));
  await second.consumer.close(true);
  if (name !== "consumer") await step(`${name}: one member again`, () => awaited(has(CREW_PARTITIONS)));
  await first.consumer.close(true);
  await step(`${name}: listed`, async () => (await admin.listGroups()).get(groupId));
  await step(`${name}: deleted`, () => admin.deleteGroups({ groups: [groupId] }));
}

async function transactionSteps(admin) {
  const producer = new kafka.Producer(options({ transactionalId: TRANSACTION, idempotent: true, acks: -1 }));
  for (const end of ["abort", "commit"]) {
    const transaction = await step(`begin, to ${end}`, async () => Boolean(await producer.beginTransaction())) && producer.transaction;
    const messages = [{ topic: CREW, partition: 0, key: bytes(end), value: bytes("t"), timestamp: BASE }];
    await step(`send, to ${end}`, async () => (await transaction.send({ messages })).offsets?.length);
    await step(`${end} it`, () => transaction[end]());
  }
  await producer.close();
  await step("read what is committed", async () => {
    const records = await read(CREW, 3 * RECORDS - 9, { isolationLevel: READ_COMMITTED });
    return records.filter((record) => record[2] !== null && record[2] !== undefined);
  });
  await step("a transaction's end", () =>
    admin.listOffsets({ topics: [{ name: CREW, partitions: [{ partitionIndex: 0, timestamp: LATEST }] }], isolationLevel: READ_COMMITTED })
  );
}

async function main() {
  kafka = await import(path.join(modules, "@platformatic", "kafka", "dist", "index.js"));
  const admin = new kafka.Admin(options());
  await topicSteps(admin);
  await clusterSteps(admin);
  await produceSteps();
  await offsetSteps(admin);
  await crewSteps(admin, "roundrobin", { heartbeatInterval: 200 });
  if (words.consumerProtocol) await crewSteps(admin, "consumer", { groupProtocol: "consumer" });
  await transactionSteps(admin);
  await step("list groups", async () => [...(await admin.listGroups()).values()].filter((g) => g.id === GROUP));
  await step("delete a group", () => admin.deleteGroups({ groups: [GROUP] }));
  await step("delete a group that there is not", () => admin.deleteGroups({ groups: ["nobody"] }));
  await step("delete topics", () => admin.deleteTopics({ topics: [TOPIC, PLAIN, CREW] }));
  await step("delete a topic that there is not", () => admin.deleteTopics({ topics: ["nowhere"] }));
  await step("close", () => admin.close());
}

// What the client leaves open would keep the process.
main().then(() => process.exit(0)).catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
