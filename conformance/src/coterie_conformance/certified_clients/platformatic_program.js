// @platformatic/kafka as a consumer that processes, then commits, or as a producer.
// `node platformatic_program.js NODE_MODULES consumer|producer`.
"use strict";

const path = require("path");
const readline = require("readline");
const { pathToFileURL } = require("url");
const [modules, role] = process.argv.slice(2);

const { COTERIE_BOOTSTRAP_SERVERS: servers, COTERIE_GROUP: groupId, COTERIE_TOPIC: topic } = process.env;
const options = { clientId: "certified", bootstrapBrokers: servers.split(",") };
const report = (error) => process.stderr.write(`${error.code ?? ""} ${error.message}\n`);

async function consume({ Consumer }) {
  const consumer = new Consumer({ ...options, groupId, autocommit: false, maxWaitTime: 500 });
  const stream = await consumer.consume({ topics: [topic], mode: "committed", fallbackMode: "earliest" });
  process.on("SIGTERM", async () => {
    await consumer.close(true).catch(report);
    process.exit(0);
  });
  for await (const message of stream) {
    process.stdout.write(`${message.value.toString().trim()}\n`);
    await Promise.resolve(message.commit()).catch(report);
  }
}

async function produce({ Producer }) {
  const producer = new Producer({ ...options, idempotent: true });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      await producer.send({ messages: [{ topic, value: Buffer.from(line) }] });
      process.stdout.write(`${line}\n`);
    } catch (error) {
      report(error);
    }
  }
  await producer.close();
}

(async () => {
  const kafka = await import(pathToFileURL(path.join(modules, "@platformatic", "kafka", "dist", "index.js")));
  await (role === "consumer" ? consume(kafka) : produce(kafka));
})();
