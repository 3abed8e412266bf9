// A server that speaks the protocol of redis (RESP) at a path, for peers that the kernel
// identifies: PING, GET, SET, INCR, INFO. Clients of redis connect: redis-cli -s PATH, for one.
import { listen, socketPath } from 'sidecall';
import { commandsIn } from './resp.mjs';

const [path = socketPath('redis-like')] = process.argv.slice(2);
const values = new Map();

const commands = {
  PING: () => '+PONG\r\n',
  GET: (key) => bulk(values.get(key)),
  SET(key, value) {
    values.set(key, value);
    return '+OK\r\n';
  },
  INCR(key) {
    const text = values.get(key) ?? '0';
    if (!/^-?\d{1,15}$/.test(text)) return '-ERR value is not an integer or out of range\r\n';
    const number = Number(text) + 1;
    values.set(key, String(number));
    return `:${number}\r\n`;
  },
  INFO: () => bulk('redis_version:7.0.0\r\nloading:0\r\n'),
};
const needed = { GET: 1, SET: 2, INCR: 1 };

function bulk(text) {
  return text === undefined ? '$-1\r\n' : `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
}

function answer([name, ...args]) {
  if (name === undefined) return ''; // as redis: an empty command has no answer
  const command = commands[name.toUpperCase()];
  if (command === undefined) return `-ERR unknown command '${name.slice(0, 64)}'\r\n`;
  if (args.length < (needed[name.toUpperCase()] ?? 0)) {
    return `-ERR wrong number of arguments for '${name.toLowerCase()}' command\r\n`;
  }
  return command(...args);
}

async function serve(connection) {
  try {
    // A command that is refused is answered before the connection ends.
    const chunks = connection.iterator({ destroyOnReturn: false });
    for await (const command of commandsIn(chunks)) {
      // A client that does not read its answers is not read either.
      if (!connection.write(answer(command))) {
        await new Promise((go) => connection.once('drain', go).once('close', go));
      }
    }
    connection.end();
  } catch (error) {
    connection.end(`-ERR Protocol error: ${error.message}\r\n`);
  }
}

const listener = await listen({ path, protocol: 'plain' });
// Connections are ended in order, and the path is removed; the same signal again ends at once.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => listener.close());
console.log(`listening at ${listener.path}`);
for await (const connection of listener) void serve(connection);
