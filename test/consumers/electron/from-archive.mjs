// The main code of the example, started from inside its archive: prints the lane of its helper.
import { EventEmitter } from 'node:events';
import { register } from 'node:module';
import { pathToFileURL } from 'node:url';
import { MessageChannel } from 'node:worker_threads';

register('./asar-hooks.mjs', import.meta.url);
const [archive] = process.argv.slice(2);
const { start } = await import(`${pathToFileURL(archive)}/app.mjs`);

class BrowserWindow {
  webContents = Object.assign(new EventEmitter(), {
    ipc: new EventEmitter(),
    mainFrame: { postMessage() {}, processId: 1, routingId: 1, origin: 'file://', parent: null },
  });
  async loadFile() {}
}
const electron = { BrowserWindow, MessageChannelMain: MessageChannel };
const running = await start(electron, { folder: '/tmp', file: '/dev/null', preload: '' });
const { library } = running.helpers;
await library.session.ping();
console.log(`the helper of the archive is ${library.state.state}`);
await running.stop();
