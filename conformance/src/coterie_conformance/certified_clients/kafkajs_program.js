// kafkajs as a consumer that processes, then commits, or as a producer. `node kafkajs_program.js NODE_MODULES consumer|producer`.
"use strict";

const path = require("path");
const readline = require("readline");
const [modules, role] = process.argv.slice(2);
const { Kafka, logLevel } = require(path.join(modules, "kafkajs"));

const { COTERIE_BOOTSTRAP_SERVERS: servers, COTERIE_GROUP: groupId, COTERIE_TOPIC: topic } = process.env;
const log = () => ({ log }) => process.stderr.write(`${log.message} ${log.error ?? ""}\n`);
const kafka = new Kafka({ brokers: servers.split(","), clientId: "certified", logLevel: logLevel.ERROR, logCreator: log });

async function consume() {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 500 });
  process.on("SIGTERM", async () => {
    await consumer.disconnect();
    process.exit(0);
  });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({ eachMessage: async ({ message }) => process.stdout.write(`${message.value.toString().trim()}\n`) });
}

async function produce() {
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  let batch = [];
  let sending = Promise.resolve();
  const send = async () => {
    if (!batch.length) return;
    const values = batch;
    batch = [];
    try {
      await producer.send({ topic, messages: values.map((value) => ({ value })) });
      process.stdout.write(values.map((value) => `${value}\n`).join(""));
    } catch (error) {
      process.stderr.write(`${error.message}\n`);
    }
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    batch.push(line);
    sending = sending.then(send);
  }
  await sending;
  await producer.disconnect();
}

role === "consumer" ? consume() : produce();
