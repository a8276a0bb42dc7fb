// kafkajs: one call over SASL_SSL. `node login.js NODE_MODULES`, with the settings as JSON on the standard input; prints its error.
"use strict";

const fs = require("fs");
const path = require("path");
const { Kafka, logLevel } = require(path.join(process.argv[2], "kafkajs"));
const given = JSON.parse(fs.readFileSync(0, "utf8"));
const TIMEOUT_MS = 15000;

const CALLS = {
  list: async (kafka) => {
    const admin = kafka.admin();
    await admin.connect();
    await admin.listTopics();
    await admin.disconnect();
  },
  topic: async (kafka) => {
    const producer = kafka.producer();
    await producer.connect();
    await producer.send({ topic: "denied", messages: [{ value: "one" }] });
  },
  group: async (kafka) => {
    const consumer = kafka.consumer({ groupId: "denied" });
    await consumer.connect();
    await consumer.subscribe({ topic: "words" });
    await new Promise((_, reject) => {
      consumer.on("consumer.crash", (event) => reject(event.payload.error));
      consumer.run({ eachMessage: async () => undefined });
    });
  },
  transaction: async (kafka) => {
    const producer = kafka.producer({ transactionalId: "denied", idempotent: true, maxInFlightRequests: 1 });
    await producer.connect();
    await producer.transaction();
  },
};

async function main() {
  const ssl = { ca: [fs.readFileSync(given["ssl.truststore.location"])] };
  if (given["ssl.keystore.location"]) ssl.key = ssl.cert = fs.readFileSync(given["ssl.keystore.location"]);
  const sasl = {
    mechanism: given["sasl.mechanism"].toLowerCase(),
    username: given["sasl.username"],
    password: given["sasl.password"],
    oauthBearerProvider: async () => ({ value: given["sasl.token"] }),
  };
  const kafka = new Kafka({
    brokers: [given["bootstrap.servers"]],
    ssl,
    sasl: given["security.protocol"] === "SASL_SSL" ? sasl : undefined,
    logLevel: logLevel.NOTHING,
    retry: { retries: given.call === "transaction" ? 1 : 0 }, // an idempotent producer must have one
  });
  await CALLS[given.call](kafka);
}

setTimeout(() => process.exit(2), TIMEOUT_MS).unref();
main().then(
  () => process.exit(0),
  (error) => {
    let cause = error;
    while (cause.originalError || cause.cause) cause = cause.originalError || cause.cause;
    process.stdout.write(`${cause.type || cause.code || cause.name}: ${cause.message}\n`, () => process.exit(0));
  }
);
