// A JSON-RPC server that sends very many notifications before it answers: over standard input and
// output (`--stdio`), or over a session with the process that spawned it.
import {
  createMessageConnection,
  StreamMessageReader,
  StreamMessageWriter,
} from 'vscode-jsonrpc/node';
import { jsonrpcTransport } from '../../../dist/adapters/jsonrpc.js';
import { parent } from '../../../dist/index.js';

const { reader, writer } = process.argv.includes('--stdio')
  ? {
      reader: new StreamMessageReader(process.stdin),
      writer: new StreamMessageWriter(process.stdout),
    }
  : jsonrpcTransport(await parent());
const connection = createMessageConnection(reader, writer);
connection.onRequest('flood', (count, length) => {
  const text = 'x'.repeat(length);
  for (let at = 0; at < count; at += 1) void connection.sendNotification('note', at, text);
  return 'done';
});
connection.onNotification('exit', () => process.exit(0));
connection.listen();
