// SPDX-License-Identifier: MIT
// The data of the pages, by the path behind the token. Every number in a request is checked.
import type { Buffer } from 'node:buffer';
import { printableJson } from '../../base/printable.ts';
import { jsonLines, pcapng } from '../export-recording.ts';
import {
  mayShow,
  type ProcessChoice,
  processChoices,
  type ShownFile,
  type WebSettings,
} from './operands.ts';
import { type ProcessView, WatchedProcess } from './watched-process.ts';

/** An answer to a browser. */
export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string | Buffer;
  /** The name under which it is saved; undefined: it is shown. */
  readonly file?: string | undefined;
}

/** The choices of a page: `GET choices`. */
export interface Choices {
  readonly processes: readonly ProcessChoice[];
  readonly files: readonly { readonly name: string }[];
  /** No process was named: all of this user that allow it are shown. */
  readonly isAll: boolean;
}

const json = 'application/json; charset=utf-8';
/** Processes that are looked at: the one that was asked for the longest time ago makes room. */
const watchedMax = 32;

/** The processes and files of one server. */
export class PageData {
  readonly #settings: WebSettings;
  readonly #watched = new Map<number, WatchedProcess>();

  constructor(settings: WebSettings) {
    this.#settings = settings;
  }

  /**
   * `choices`, `process/PID?sample=N&change=N&key=KEY`, `process/PID/calls.jsonl`, `file/N`,
   * `file/N/recording.jsonl`, `file/N/recording.pcapng`.
   */
  async read(path: string, query: URLSearchParams): Promise<Answer> {
    if (path === 'choices') return jsonAnswer(this.#choices());
    const [kind, number, export_] = path.split('/');
    if (kind === 'process') {
      const watched = this.#process(number);
      if (watched === undefined) return unknown(`There is no process ${number} to look into.`);
      if (export_ === 'calls.jsonl') return exportCalls(watched);
      if (export_ === undefined) return jsonAnswer(await viewOf(watched, query));
    }
    if (kind === 'file') {
      const shown = this.#settings.files[Number(number)];
      if (shown === undefined) return unknown(`There is no file ${number}.`);
      if (export_ === undefined) return jsonAnswer(shown.report);
      return exportFile(shown, export_) ?? unknown(`A file has no '${export_}'.`);
    }
    return unknown(`There is no page '${path}'.`);
  }

  /** `process/PID/recording?on=1` begins to record calls, `on=0` ends it. */
  async change(path: string, query: URLSearchParams): Promise<Answer> {
    const [kind, number, what] = path.split('/');
    const watched = kind === 'process' ? this.#process(number) : undefined;
    if (watched === undefined || what !== 'recording') return unknown(`There is no '${path}'.`);
    if (query.get('on') === '1') await watched.feed.start();
    else await watched.feed.stop();
    return jsonAnswer({ isOn: watched.feed.isOn });
  }

  /** Ends all looks. */
  async close(): Promise<void> {
    await Promise.all([...this.#watched.values()].map((each) => each.close()));
  }

  #choices(): Choices {
    const { pids, files } = this.#settings;
    return {
      processes: processChoices(this.#settings),
      files: files.map(({ name }) => ({ name })),
      isAll: pids.length === 0 && files.length === 0,
    };
  }

  /** undefined: no such process may be shown. */
  #process(number: string | undefined): WatchedProcess | undefined {
    const pid = Number(number);
    const known = this.#watched.get(pid);
    if (known !== undefined && !known.isFollowed) return known;
    if (!mayShow(this.#settings, pid)) return known;
    void known?.close(); // another process has its number now
    const watched = new WatchedProcess(pid, this.#settings);
    this.#watched.set(pid, watched);
    if (this.#watched.size > watchedMax) this.#dropOldest(watched);
    return watched;
  }

  #dropOldest(added: WatchedProcess): void {
    const others = [...this.#watched.values()].filter((each) => each !== added);
    const idle = others.filter(({ feed }) => !feed.isOn);
    const oldest = (idle.length > 0 ? idle : others).reduce((a, b) =>
      a.askedMs <= b.askedMs ? a : b,
    );
    this.#watched.delete(oldest.pid);
    void oldest.close();
  }
}

const keyMax = 64;

function viewOf(watched: WatchedProcess, query: URLSearchParams): Promise<ProcessView> {
  const number = (name: string): number => {
    const value = Number(query.get(name) ?? 0);
    return Number.isSafeInteger(value) ? value : 0;
  };
  const key = query.get('key')?.slice(0, keyMax) || undefined;
  return watched.view({ sample: number('sample'), change: number('change'), key });
}

function exportCalls({ pid, feed }: WatchedProcess): Answer {
  const lines = feed.calls.since(0).map(({ change: _, ...call }) => `${JSON.stringify(call)}\n`);
  const body = printableJson(lines.join(''));
  return {
    status: 200,
    type: 'application/jsonl; charset=utf-8',
    body,
    file: `calls-${pid}.jsonl`,
  };
}

function exportFile({ report }: ShownFile, as: string): Answer | undefined {
  if (!('recording' in report)) return undefined;
  const { recording } = report;
  const file = `recording-${recording.pid}`;
  if (as === 'recording.pcapng') {
    const body = pcapng(recording);
    return { status: 200, type: 'application/octet-stream', body, file: `${file}.pcapng` };
  }
  if (as !== 'recording.jsonl') return undefined;
  const body = `${[...jsonLines(recording)].join('\n')}\n`;
  return { status: 200, type: 'application/jsonl; charset=utf-8', body, file: `${file}.jsonl` };
}

function jsonAnswer(value: unknown): Answer {
  return { status: 200, type: json, body: printableJson(JSON.stringify(value)) };
}

function unknown(problem: string): Answer {
  return { status: 404, type: json, body: printableJson(JSON.stringify({ problem })) };
}
