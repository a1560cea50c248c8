// redis-semaphore of Node: `node semaphore.cjs PORT layouts`, `node semaphore.cjs PORT hold KEY`.
const readline = require("node:readline");
const Redis = require("ioredis");
const { Semaphore } = require("redis-semaphore");
const { version } = require("redis-semaphore/package.json");

const [port, command, key] = process.argv.slice(2);
const client = new Redis(Number(port));

async function show(state, name) {
  const members = await client.zrevrange(`semaphore:${name}`, 0, -1, "WITHSCORES");
  const pairs = [];
  for (let at = 0; at < members.length; at += 2) pairs.push(`${members[at]}=${members[at + 1]}`);
  console.log(`${state}\t${await client.pttl(`semaphore:${name}`)}\t${pairs.join(" ") || "-"}`);
}

async function layouts() {
  console.log(`# made by tests/libraries with redis-semaphore ${version}`);
  console.log("# state, PTTL, value (- for none)");
  const one = new Semaphore(client, "one", 1);
  await one.acquire();
  await show("held", "one");
  await one.release();
  await show("released", "one");
  const two = [1, 2].map(() => new Semaphore(client, "two", 2));
  for (const semaphore of two) await semaphore.acquire();
  await show("held-by-two", "two");
  await two[0].release();
  await show("held-by-one", "two");
  await two[1].release();
}

// Renews by itself, after 80 % of its lease.
async function hold() {
  const semaphore = new Semaphore(client, key, 1, { lockTimeout: 3000 });
  const actions = { take: () => semaphore.acquire(), release: () => semaphore.release() };
  console.log("ready", version);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const began = Date.now();
    await actions[line.trim()]();
    console.log(line.trim(), began, Date.now());
  }
}

({ layouts, hold })[command]().finally(() => client.quit());
