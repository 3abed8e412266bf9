// Electron's ports of the main process, over those of Node, whose structured clone is V8's, as
// Electron's is.
import { EventEmitter } from 'node:events';
import { MessageChannel as NodeChannel } from 'node:worker_threads';

/** `MessagePortMain`. */
class StubPort extends EventEmitter {
  #port;

  /** @param {import('node:worker_threads').MessagePort} port */
  constructor(port) {
    super();
    this.#port = port;
    port.on('message', (data) => this.emit('message', { data, ports: [] }));
    port.on('close', () => this.emit('close'));
  }

  /** @param {unknown} message */
  postMessage(message) {
    this.#port.postMessage(message);
  }

  start() {
    this.#port.start();
  }

  close() {
    this.#port.close();
  }
}

/** `MessageChannelMain`. The second port is the page's. */
export class MessageChannelMain {
  constructor() {
    const { port1, port2 } = new NodeChannel();
    this.port1 = new StubPort(port1);
    this.port2 = port2;
  }
}
