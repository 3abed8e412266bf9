// A relay: forwards messages of a JSON-RPC server to the parent, and the reverse.
import { spawn } from 'node:child_process';
import { jsonrpcTransport, stdioTransport } from '../../../dist/adapters/jsonrpc.js';
import { parent } from '../../../dist/index.js';

const program = new URL('flooding-server.mjs', import.meta.url).pathname;
const server = spawn(process.execPath, [program, '--stdio'], {
  stdio: ['pipe', 'pipe', 'inherit'],
});
const behind = stdioTransport(server);
const ahead = jsonrpcTransport(await parent());
behind.reader.listen((message) => ahead.writer.write(message));
ahead.reader.listen((message) => behind.writer.write(message));
server.on('exit', (code) => process.exit(code ?? 1));
