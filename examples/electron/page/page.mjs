// The page: sandboxed, without Node and Electron. Main decides which methods it may call.
import { connectMain } from 'sidecall/electron/renderer';
import { Library, Probe, Shell } from '../contract.mjs';

const element = (id) => document.getElementById(id);
const shown = 200;

const shell = (await connectMain({ name: 'shell' })).client(Shell);
const connection = await connectMain({ name: 'library' });
const library = connection.client(Library);
element('status').textContent = `connected, ${connection.maxInFlight} calls at a time`;
void connection.closed.then((error) => {
  element('status').textContent = `disconnected: ${error?.message ?? 'closed'}`;
});

const places = await shell.places();
element('folder').textContent = places.folder;
element('file').textContent = places.file;

void showHelpers();
void showFolder();
void showProbe();
element('hash').addEventListener('click', () => void hash());

async function showHelpers() {
  const rows = new Map();
  for await (const helper of shell.helpers()) {
    const row = rows.get(helper.name) ?? element('helpers').insertRow();
    rows.set(helper.name, row);
    row.id = `helper-${helper.name}`;
    row.dataset.state = helper.state;
    const cells = ['name', 'state', 'loop', 'pid', 'uid', 'origin', 'lane', 'restarts'];
    row.replaceChildren(...cells.map((key) => cellOf(helper[key])), killCell(helper.name));
  }
}

function cellOf(value) {
  const cell = document.createElement('td');
  cell.textContent = String(value ?? '–');
  return cell;
}

function killCell(name) {
  const cell = document.createElement('td');
  const button = document.createElement('button');
  button.textContent = 'Kill';
  button.addEventListener('click', () => void shell.kill({ name }));
  cell.append(button);
  return cell;
}

/** A loop: after a helper was killed and restarted, the list is requested anew. */
async function showFolder() {
  const names = new Map();
  for (;;) {
    try {
      for await (const { event, name, bytes } of library.watch()) {
        if (event === 'removed') names.delete(name);
        else names.set(name, bytes);
        draw(names);
      }
    } catch (error) {
      element('status').textContent = `the list was lost: ${error.code}`;
      if (!error.retryable) return;
      names.clear();
      await new Promise((resolve) => setTimeout(resolve, 200));
      element('status').textContent = 'connected again';
    }
  }
}

function draw(names) {
  element('count').textContent = String(names.size);
  const items = [...names].slice(0, shown).map(([name, bytes]) => {
    const item = document.createElement('li');
    item.textContent = `${name} · ${bytes.toLocaleString('en')} bytes`;
    return item;
  });
  element('list').replaceChildren(...items);
}

async function showProbe() {
  let probe;
  try {
    probe = (await connectMain({ name: 'probe', timeoutMs: 500 })).client(Probe);
  } catch {
    element('probe').textContent = 'The C helper was not built.';
    return;
  }
  for (;;) {
    try {
      const { pid, language, uptimeSeconds, load } = await probe.read(undefined, {
        timeoutMs: 5_000,
      });
      element('probe').textContent =
        `A helper in ${language} (process ${pid}) says: up for ${uptimeSeconds} s, load ${load}`;
    } catch (error) {
      element('probe').textContent = `The C helper: ${error.code}`;
    }
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}

async function hash() {
  const aborter = new AbortController();
  const cancel = () => aborter.abort(new Error('cancelled'));
  element('cancel').addEventListener('click', cancel);
  element('cancel').disabled = false;
  element('hash').disabled = true;
  element('outcome').textContent = '';
  try {
    const { signal } = aborter;
    for await (const { done, total, sha256 } of library.hash(undefined, { signal })) {
      const share = total === 0 ? 1 : done / total;
      element('progress').value = share;
      element('percent').textContent = `${Math.floor(100 * share)} %`;
      if (sha256 !== undefined) element('outcome').textContent = sha256;
    }
  } catch (error) {
    element('outcome').textContent = error.message;
  } finally {
    element('cancel').removeEventListener('click', cancel);
    element('cancel').disabled = true;
    element('hash').disabled = false;
  }
}
