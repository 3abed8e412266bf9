// Messages of a fixed layout, encoded by hand: an order of 32 bytes, a quote of 16. A codec of your
// own is a name and two functions.
import { service, unary } from 'sidecall';

const nameBytes = 16;

/** @type {import('sidecall').Codec<{ id: number; amount: number; name: string }>} */
export const order = {
  name: 'order',
  encode({ id, amount, name }) {
    const bytes = Buffer.alloc(32);
    bytes.writeUInt32LE(id, 0);
    bytes.writeDoubleLE(amount, 8);
    if (bytes.write(name, 16, nameBytes) < Buffer.byteLength(name)) {
      throw new RangeError(`a name has at most ${nameBytes} bytes`);
    }
    return bytes;
  },
  decode(bytes) {
    if (bytes.byteLength !== 32) throw new RangeError('an order has 32 bytes');
    const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const end = view.indexOf(0, 16);
    return {
      id: view.readUInt32LE(0),
      amount: view.readDoubleLE(8),
      name: view.toString('utf8', 16, end === -1 ? 32 : end),
    };
  },
};

/** @type {import('sidecall').Codec<{ id: number; price: number }>} */
export const quote = {
  name: 'quote',
  encode({ id, price }) {
    const bytes = Buffer.alloc(16);
    bytes.writeUInt32LE(id, 0);
    bytes.writeDoubleLE(price, 8);
    return bytes;
  },
  decode(bytes) {
    if (bytes.byteLength !== 16) throw new RangeError('a quote has 16 bytes');
    const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return { id: view.readUInt32LE(0), price: view.readDoubleLE(8) };
  },
};

export const Desk = service('Desk', {
  price: unary({ request: order, response: quote }),
  /** Takes a moment, as a real desk does. */
  settle: unary({ request: order, response: quote }),
});
