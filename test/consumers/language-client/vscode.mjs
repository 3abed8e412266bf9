// A stub of VS Code's API: what its client for language servers needs to be loaded, to start and
// to tell its user something.

/** Texts that were shown to the user. */
export const shown = [];

const disposable = { dispose() {} };
const subscribe = () => disposable;

class EventEmitter {
  #listeners = new Set();
  event = (listener, self) => {
    const bound = listener.bind(self);
    this.#listeners.add(bound);
    return { dispose: () => this.#listeners.delete(bound) };
  };
  fire(value) {
    for (const listener of [...this.#listeners]) listener(value);
  }
  dispose() {
    this.#listeners.clear();
  }
}

class CancellationTokenSource {
  token = { isCancellationRequested: false, onCancellationRequested: subscribe };
  cancel() {}
  dispose() {}
}

const show = async (text) => void shown.push(text);
const ignore = () => undefined;
const log = { append: ignore, appendLine: ignore, clear: ignore, show, hide: ignore };
const levels = { info: ignore, warn: ignore, error: ignore, debug: ignore, trace: ignore };
const channel = { ...log, ...levels, ...disposable, logLevel: 0, onDidChangeLogLevel: subscribe };

/** A part of the API: events can be subscribed to, providers registered, lists are empty. */
const part = (members) =>
  new Proxy(members, {
    get: (_, name) => {
      if (name in members) return members[name];
      if (/^on/.test(String(name))) return subscribe;
      return /^(register|create)/.test(String(name)) ? () => ({ ...disposable }) : undefined;
    },
  });

const api = {
  __esModule: true,
  EventEmitter,
  CancellationTokenSource,
  version: '1.100.0',
  window: part({
    showErrorMessage: show,
    showWarningMessage: show,
    showInformationMessage: show,
    createOutputChannel: () => channel,
    visibleTextEditors: [],
    tabGroups: { all: [], onDidChangeTabs: subscribe },
  }),
  workspace: part({
    textDocuments: [],
    notebookDocuments: [],
    getConfiguration: () => ({ get: ignore }),
  }),
  env: { appName: 'a test', language: 'en' },
};
for (const name of ['languages', 'commands', 'extensions', 'notebooks']) api[name] = part({});

/** Classes and enums of the API, which the client extends and reads. */
const kinds = new Map();
function kindOf(name) {
  const members = { get: (kind, member) => (member in kind ? kind[member] : 0) };
  if (!kinds.has(name)) kinds.set(name, new Proxy(class {}, members));
  return kinds.get(name);
}

export const vscode = new Proxy(api, {
  get: (_, name) => {
    if (name in api) return api[name];
    return /^[A-Z]/.test(String(name)) ? kindOf(name) : undefined;
  },
});
