// Locks of Node's libraries on command: `node locks.mjs PORT hold KEY LIBRARY`. As the programs in
// Python, it answers each word with the time before and after.
import { createRequire } from "node:module";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const LEASE_MS = 3000;
const [port, , key, library] = process.argv.slice(2);
const installed = process.env.NODE_PATH;
const require = createRequire(pathToFileURL(`${installed}/`));
// Packages of ES modules only are not found by `require`.
const load = (file) => import(pathToFileURL(`${installed}/${file}`).href);
const version = (name) => JSON.parse(read(`${installed}/${name}/package.json`)).version;
const read = (file) => require("node:fs").readFileSync(file, "utf8");

const Redis = require("ioredis");
const client = new Redis(Number(port), { maxRetriesPerRequest: null });

/** The libraries whose lock is an object with `extend` and `release`. */
async function redlock(name) {
  const module = require(name);
  const Redlock = module.Redlock ?? module.default;
  const locks = new Redlock([client], { retryCount: 0, automaticExtensionThreshold: 500 });
  let lock;
  return {
    take: async () => void (lock = await locks.acquire([key], LEASE_MS)),
    renew: async () => void (lock = await lock.extend(LEASE_MS)),
    release: () => lock.release(),
  };
}

async function redlockUniversal() {
  const { createLock, IoredisAdapter } = await load("redlock-universal/dist/index.js");
  const lock = createLock({ adapter: new IoredisAdapter(client), key, ttl: LEASE_MS });
  let handle;
  return {
    take: async () => void (handle = await lock.acquire()),
    renew: () => lock.extend(handle, LEASE_MS),
    release: () => lock.release(handle),
  };
}

/** A job by this name, whose lock a worker has while it works on it. */
async function bullmq() {
  const { Queue, Worker } = require("bullmq");
  const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
  const queue = new Queue("q", { connection });
  const worker = new Worker("q", null, { connection, autorun: false, lockDuration: LEASE_MS });
  const token = "0b1f6c0e-6d6c-4d0e-9f0a-5d3c1f2e4a5b:1";
  let job;
  return {
    async take() {
      await queue.add("nightly", {}, { jobId: key, removeOnComplete: true });
      job = await worker.getNextJob(token);
    },
    renew: () => job.extendLock(token, LEASE_MS),
    release: () => job.moveToCompleted("done", token, false),
  };
}

function redisSemaphoreMutex() {
  const { Mutex } = require("redis-semaphore");
  const mutex = new Mutex(client, key, { lockTimeout: LEASE_MS, refreshInterval: 0 });
  return { take: () => mutex.acquire(), release: () => mutex.release() };
}

function ioredisLock() {
  const lock = require("ioredis-lock").createLock(client, { timeout: LEASE_MS });
  return {
    take: () => lock.acquire(key),
    renew: () => lock.extend(LEASE_MS),
    release: () => lock.release(),
  };
}

/** Renews by itself, each half of its lease. */
function safeRedisLeader() {
  const { createSafeRedisLeader } = require("safe-redis-leader");
  let leader;
  return {
    async take() {
      leader = await createSafeRedisLeader({ asyncRedis: client, ttl: LEASE_MS, wait: 500, key });
      const elected = new Promise((resolve) => leader.on("elected", resolve));
      await leader.elect();
      await elected;
    },
    release: () => leader.stop(),
  };
}

async function verrou() {
  const { LockFactory } = await load("@verrou/core/build/index.js");
  const { redisStore } = await load("@verrou/core/build/src/drivers/redis.js");
  const factory = new LockFactory(redisStore({ connection: client }).factory(), { retry: { attempts: 1 } });
  const lock = factory.createLock(key, LEASE_MS);
  return {
    take: () => lock.acquire(),
    renew: () => lock.extend(LEASE_MS),
    release: () => lock.release(),
  };
}

/** Its watchdog renews after a third of its lease. */
function nodeRedisson() {
  const { Redisson } = require("node-redisson");
  const options = { host: "127.0.0.1", port: Number(port) };
  const redisson = new Redisson({ redis: { options }, lockWatchdogTimeout: BigInt(LEASE_MS) });
  const lock = redisson.getLock(key);
  return { take: () => lock.lock(), release: () => lock.unlock() };
}

const LIBRARIES = {
  redlock: () => redlock("redlock"),
  "@sesamecare-oss/redlock": () => redlock("@sesamecare-oss/redlock"),
  "redlock-universal": redlockUniversal,
  bullmq,
  "redis-semaphore": redisSemaphoreMutex,
  "ioredis-lock": ioredisLock,
  "safe-redis-leader": safeRedisLeader,
  "@verrou/core": verrou,
  "node-redisson": nodeRedisson,
};

const actions = await LIBRARIES[library]();
console.log("ready", version(library));
for await (const line of readline.createInterface({ input: process.stdin })) {
  const action = line.trim();
  const began = Date.now();
  await actions[action]();
  console.log(action, began, Date.now());
}
process.exit(0);
