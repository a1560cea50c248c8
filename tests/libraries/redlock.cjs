// Locks on several servers: `node redlock.cjs PORT,PORT,PORT hold KEY`. The lock is taken, renewed by
// the library itself, and given back on command; `LIBRARY` is `redlock` or `redis-semaphore`.
const readline = require("node:readline");
const Redis = require("ioredis");

const [ports, , key] = process.argv.slice(2);
const options = { maxRetriesPerRequest: 0, retryStrategy: () => 200, connectTimeout: 500 };
const clients = ports.split(",").map((port) => new Redis(Number(port), options));
// A server that is away is what this is about.
clients.forEach((client) => client.on("error", () => {}));

const lease = 3000;

// redlock renews only within `using`, before the end of its lease.
function redlock() {
  const { default: Redlock } = require("redlock");
  const locks = new Redlock(clients, { retryCount: 0, automaticExtensionThreshold: 1500 });
  locks.on("error", () => {});
  let release = () => {};
  let ended = Promise.resolve();
  return {
    take: () =>
      new Promise((taken, failed) => {
        const work = () => new Promise((done) => (taken(), (release = done)));
        ended = locks.using([key], lease, work).catch(failed);
      }),
    release: () => (release(), ended),
  };
}

// Renews by itself, after 80 % of its lease.
function semaphore() {
  const { RedlockMutex } = require("redis-semaphore");
  const options = { lockTimeout: lease, acquireTimeout: 1500, onLockLost: () => {} };
  const mutex = new RedlockMutex(clients, key, options);
  return { take: () => mutex.acquire(), release: () => mutex.release() };
}

async function main() {
  const actions = process.env.LIBRARY === "redlock" ? redlock() : semaphore();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const began = Date.now();
    const word = line.trim();
    const outcome = await actions[word]().then(
      () => "done",
      () => "failed",
    );
    console.log(word, outcome, began, Date.now());
  }
}

main().finally(() => clients.forEach((client) => client.disconnect()));
