// What the test needs around outbound.mjs: a connection, and the work.
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";
import { run } from "./outbound.mjs";

const there = (name) => existsSync(`${process.env.FOLDER}/${name}`);

/** A piece of work. Returns whether to go on. */
async function shipNext() {
  await sleep(50);
  while (there("hang")) await sleep(50);
  return !there("stop");
}

const client = createClient({ url: process.env.REDIS_URL });
await client.connect();
await run(client, shipNext);
client.destroy();
