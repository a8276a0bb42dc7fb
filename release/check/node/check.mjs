import assert from "node:assert/strict";
import { test } from "node:test";
import { KafkaContainer } from "@testcontainers/kafka";
import { Kafka, logLevel } from "kafkajs";

for (const [mode, start] of [
  ["with a ZooKeeper of its own", () => new KafkaContainer("localhost/coterie:7.6.0")],
  ["KRaft", () => new KafkaContainer("localhost/coterie:7.6.0").withKraft()],
  ["KRaft, a tag below 7.4", () => new KafkaContainer("localhost/coterie:7.3.0").withKraft()],
])
  test(mode, async () => {
    const began = performance.now();
    const container = await start().start();
    console.log(mode, Math.round(performance.now() - began), "ms");
    const kafka = new Kafka({ brokers: [`${container.getHost()}:${container.getMappedPort(9093)}`], logLevel: logLevel.ERROR });
    const producer = kafka.producer();
    await producer.connect();
    await producer.send({ topic: "t", messages: [{ value: "hello" }] });
    await producer.disconnect();
    const consumer = kafka.consumer({ groupId: "g" });
    await consumer.connect();
    await consumer.subscribe({ topic: "t", fromBeginning: true });
    const value = await new Promise((resolve) => consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }));
    assert.equal(value, "hello");
    await consumer.disconnect();
    await container.stop();
  });
