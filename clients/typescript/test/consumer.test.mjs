// Ten tests of a kafkajs consumer, each with a fault that a container's Kafka cannot be asked for.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { Kafka, logLevel } from "kafkajs";
import { Broker, ControlError } from "../dist/index.js";

const group = "billing";
const committed = [{ topic: "orders", partition: 0, offset: 2 }];
let broker;
let consumers;

before(async () => {
  broker = await Broker.start();
});
after(() => broker.close());

beforeEach(async () => {
  consumers = [];
  await broker.reset();
  await broker.createTopic("orders", { partitions: 2 });
  await broker.produce("orders", ["a", new Uint8Array([98])]);
});
afterEach(async () => {
  await Promise.all(consumers.map((consumer) => consumer.disconnect()));
});

/** A running member, and what it has read; `until(n)` waits for so many records. */
async function member(clientId = "worker") {
  const retry = { initialRetryTime: 10, retries: 20 };
  const kafka = new Kafka({ clientId, brokers: broker.bootstrapAddress.split(","), logLevel: logLevel.NOTHING, retry });
  const consumer = kafka.consumer({ groupId: group, heartbeatInterval: 50, maxWaitTimeInMs: 50, retry });
  consumers.push(consumer);
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  const values = [];
  let seen = () => {};
  const eachMessage = async ({ message }) => {
    values.push(String(message.value));
    seen();
  };
  await consumer.run({ autoCommit: false, eachMessage });
  const until = (count) =>
    new Promise((resolve) => {
      seen = () => values.length >= count && resolve(values);
      seen();
    });
  return { consumer, until };
}

const commit = ({ consumer }) => consumer.commitOffsets([{ topic: "orders", partition: 0, offset: "2" }]);

test("records arrive", async () => {
  assert.deepEqual(await (await member()).until(2), ["a", "b"]);
});

test("a commit is retried while the coordinator loads", async () => {
  const one = await member();
  await one.until(2);
  await broker.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", { times: 2 });
  await commit(one);
  await broker.untilCommitted(group, committed);
  assert.equal(await broker.requested("OffsetCommit"), 3);
});

test("a held SyncGroup delays the first record", async () => {
  const held = await broker.hold("SyncGroup", { group });
  const joining = member();
  await broker.untilHeld(held);
  await assert.rejects(broker.untilStable(group, { timeoutS: 0.05 }), (error) => error.isTimeout);
  await broker.release(held);
  await (await joining).until(2);
});

test("a member whose session expired joins again", async () => {
  const one = await member();
  await one.until(2);
  await broker.expire(group, "worker");
  await one.until(4); // nothing was committed: both records again
});

test("another coordinator", async () => {
  const one = await member();
  await one.until(2);
  await broker.moveCoordinator(group);
  await commit(one);
  await broker.untilCommitted(group, committed);
});

test("a connection is cut instead of a commit", async () => {
  const one = await member();
  await one.until(2);
  await broker.cut("OffsetCommit");
  await commit(one).catch(() => commit(one));
  await broker.untilCommitted(group, committed);
});

test("a slow fetch", async () => {
  await broker.delay("Fetch", 100);
  await (await member()).until(2);
});

test("connections drop", async () => {
  const one = await member();
  await one.until(2);
  assert.ok((await broker.dropConnections({ clientId: "worker" })) > 0);
  await broker.produce("orders", ["c"]);
  await one.until(3);
});

test("two members share the partitions", async () => {
  await Promise.all([member("one"), member("other")]);
  await broker.untilStable(group, { members: 2 });
  assert.deepEqual(Object.values(await broker.members(group)).sort(), ["one", "other"]);
});

test("refusals say why", async () => {
  const again = broker.createTopic("orders");
  await assert.rejects(again, (error) => error instanceof ControlError && error.code === "TOPIC_ALREADY_EXISTS");
});
