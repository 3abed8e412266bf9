// An unmodified language server over a transport of ours.
import { createRequire } from 'node:module';
import { jsonrpcTransport } from '../../../dist/adapters/jsonrpc.js';
import { parent } from '../../../dist/index.js';

const require = createRequire(import.meta.url);
const { createConnection } = require('vscode-languageserver/node');
const { startServer } = require('vscode-json-languageserver/out/jsonServer');

const session = await parent({ limits: { receiveMaxBytes: 64 * 1024 * 1024 } });
const { reader, writer } = jsonrpcTransport(session);
startServer(createConnection(reader, writer), {});
