// Holds a lock of node-redisson until a line comes in: hold.js PORT NAME.
const { Redisson } = require("node-redisson");

const [port, name] = process.argv.slice(2);
const redisson = new Redisson({ redis: { options: { host: "127.0.0.1", port: Number(port) } } });
const lock = redisson.getLock(name);

async function main() {
  await lock.lock();
  console.log("held");
  await new Promise((resolve) => process.stdin.once("data", resolve));
  await lock.unlock();
  console.log("released");
  process.exit(0);
}

main();
