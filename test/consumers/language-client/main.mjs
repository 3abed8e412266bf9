// The client of VS Code for language servers, with its own handlers of errors: a server that is
// killed is started again, once, without a message to the user, and none is left behind.
import { readdirSync, readFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { spawnHelper } from 'sidecall';
import { jsonrpcTransport, sidecallCommand } from 'sidecall/jsonrpc';
import { shown, vscode } from './vscode.mjs';

const load = Module._load;
Module._load = function (request, ...rest) {
  return request === 'vscode' ? vscode : load.call(this, request, ...rest);
};
const require = createRequire(import.meta.url);
const client = 'vscode-languageclient/node'; // of the consumer, not of this checkout
const { LanguageClient, State } = require(client);
const program = require.resolve('vscode-json-languageserver/bin/vscode-json-languageserver');

process.env.LANGUAGE_CLIENT = process.pid;
const helpers = [];
const limits = { receiveMaxBytes: 64 * 1024 * 1024 };
const args = ['relay', '--', process.execPath, program, '--stdio'];
async function startServer() {
  const helper = await spawnHelper(sidecallCommand, args, { limits });
  helpers.push(helper);
  return jsonrpcTransport(helper.session);
}

const languages = new LanguageClient('json', 'JSON', startServer, { documentSelector: [] });
await languages.start();
for (const kills of [1, 2, 3]) {
  const before = helpers.at(-1);
  process.kill(before.pid, 'SIGKILL');
  await before.exited;
  while (helpers.length === kills || languages.state !== State.Running) await sleep(20);
  await languages.sendRequest('textDocument/documentSymbol', {
    textDocument: { uri: 'file:///a' },
  });
}
await languages.stop();
await helpers.at(-1).exited;
while (serversOf(process.pid).length > 0) await sleep(20);
console.log(
  `${helpers.length} servers, of which none is left; shown: ${shown.join(' | ') || 'nothing'}`,
);

/** Processes of the language server that were started from here, directly or not. */
function serversOf(pid) {
  return readdirSync('/proc').filter((each) => {
    try {
      return (
        readFileSync(`/proc/${each}/environ`, 'latin1').includes(`LANGUAGE_CLIENT=${pid}`) &&
        Number(each) !== pid
      );
    } catch {
      return false; // it has ended, or is no process
    }
  });
}
