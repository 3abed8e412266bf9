// SPDX-License-Identifier: MIT
// The commands of `sidecall`: each reads its operands and options, and prints its result.
import { relative } from 'node:path';
import { errorText } from '../base/error-text.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { checkInteger } from '../base/misuse.ts';
import { writeNew } from '../base/new-file.ts';
import { printable, printableJson } from '../base/printable.ts';
import { examine } from './doctor.ts';
import { jsonLines, pcapng } from './export-recording.ts';
import { generate } from './gen.ts';
import { faultsOf, inspect, processOf } from './inspect.ts';
import { printJson } from './json.ts';
import { Misuse } from './misuse.ts';
import { printPath, printReport, printServices } from './print.ts';
import { printInspection } from './print-inspection.ts';
import { relay } from './relay.ts';
import { call, examinePath, list, type Place } from './remote.ts';
import { requestsOf } from './requests.ts';
import { printShared, sharedRows, stopShared } from './shared.ts';
import { top } from './top/top.ts';
import { type CommandName, notTaken, type Values } from './usage.ts';

interface Range {
  readonly standard: number;
  readonly min: number;
  readonly max: number;
  readonly of: string;
}
const of = 'a number of milliseconds';
const inspectTimeout: Range = { standard: 3_000, min: 100, max: 600_000, of };
const timeoutRange: Range = { standard: 30_000, min: 0, max: 2_147_483_647, of };
const topInterval: Range = { standard: 1_000, min: 100, max: 60_000, of };
const lookCount: Range = { standard: 1, min: 1, max: 1_000_000_000, of: 'a whole number' };

interface Command {
  /** At least and at most. */
  readonly operands: readonly [number, number];
  readonly needs: string;
  readonly run: (operands: string[], values: Values) => Promise<number>;
}

const commands: Readonly<Record<CommandName, Command>> = {
  doctor: { operands: [0, 1], needs: '', run: doctor },
  list: { operands: [1, 1], needs: 'the PATH of a listener', run: listServices },
  call: {
    operands: [2, Infinity],
    needs: 'the PATH of a listener and a METHOD',
    run: callMethod,
  },
  ps: { operands: [0, 0], needs: '', run: listShared },
  stop: { operands: [1, 1], needs: 'the NAME of a shared helper', run: stopHelper },
  gen: { operands: [1, Infinity], needs: 'a FILE.proto', run: genContracts },
  inspect: {
    operands: [0, Infinity],
    needs: 'a PID, the PATH of a listener, or a FILE that was saved',
    run: (operands, values) => (values.web === true ? showPages : lookInto)(operands, values),
  },
  top: { operands: [1, 1], needs: 'a PID, or the PATH of a listener', run: showTop },
  relay: {
    operands: [1, Infinity],
    needs: 'a COMMAND behind --: sidecall relay -- COMMAND',
    run: relayProgram,
  },
};

/**
 * Runs a command, and prints what failed. Resolves to the exit status.
 * @throws {Misuse} for wrong operands and options.
 */
export async function runCommand(
  command: CommandName,
  operands: string[],
  values: Values,
): Promise<number> {
  const known = commands[command];
  const [least, most] = known.operands;
  if (operands.length < least) throw new Misuse(`${command} needs ${known.needs}`);
  if (operands.length > most) throw new Misuse(`${command} takes no '${operands[most]}'`);
  for (const option of Object.keys(values)) {
    const words = notTaken(command, option);
    if (words !== undefined) throw new Misuse(words);
  }
  try {
    return await known.run(operands, values);
  } catch (error) {
    if (error instanceof Misuse) throw error;
    const text = values.json === true ? printableJson(jsonOf(error)) : printable(textOf(error));
    console.error(values.json === true ? text : `sidecall ${command}: ${text}`);
    return 1;
  }
}

function textOf(error: unknown): string {
  if (!SidecallError.is(error)) return errorText(error);
  const text = `${error.status}: ${errorText(error)}`;
  return RpcError.is(error) ? text : `${text} (${error.code})`;
}

/** All that the error says, for `--json`. */
function jsonOf(error: unknown): string {
  if (!SidecallError.is(error)) return printJson({ error: { message: errorText(error) } });
  const { code, status, message, delivered, retryable } = error;
  const { details } = error as { details?: unknown };
  return printJson({ error: { code, status, message, delivered, retryable, details } });
}

async function doctor([path]: string[], values: Values): Promise<number> {
  const isJson = values.json === true;
  if (path !== undefined) {
    const report = await examinePath(placeOf(path, values));
    console.log(isJson ? JSON.stringify(report, undefined, 2) : printPath(path, report));
    return report.verdict === 'live' ? 0 : 1;
  }
  const onTerminal = process.stdout.isTTY === true && !isJson;
  const report = await examine((step) => {
    if (onTerminal) process.stdout.write(`\r\u001b[K${step} …`);
  });
  if (onTerminal) process.stdout.write('\r\u001b[K');
  const hasColor = onTerminal && values['no-color'] !== true && !process.env.NO_COLOR;
  console.log(isJson ? JSON.stringify(report, undefined, 2) : printReport(report, hasColor));
  return report.ok ? 0 : 1;
}

async function listServices([path]: string[], values: Values): Promise<number> {
  const services = await list(placeOf(path as string, values));
  if (values.json === true) console.log(JSON.stringify(services, undefined, 2));
  else console.log(printServices(services));
  return 0;
}

async function callMethod([path, method, ...rest]: string[], values: Values): Promise<number> {
  const timeoutMs = timeoutOf(values.timeout);
  const requests = requestsOf(rest);
  const options = { timeoutMs: timeoutMs ?? timeoutRange.standard };
  const place = placeOf(path as string, values);
  await call(place, method as string, requests, options, (value) => {
    console.log(printJson(value));
  });
  return 0;
}

async function listShared(_: string[], values: Values): Promise<number> {
  const rows = await sharedRows();
  console.log(values.json === true ? JSON.stringify(rows, undefined, 2) : printShared(rows));
  return 0;
}

async function stopHelper([name]: string[], values: Values): Promise<number> {
  const waitMs = timeoutOf(values.timeout) ?? timeoutRange.standard;
  const { key, force = false, json } = values;
  const rows = await stopShared(name as string, { key, force, waitMs });
  if (json === true) console.log(JSON.stringify(rows, undefined, 2));
  else for (const { pid } of rows) console.log(`${name}: process ${pid} has ended`);
  return 0;
}

async function genContracts(files: string[], values: Values): Promise<number> {
  const { out, path: paths = [], json } = values;
  const generated = await generate({ files, out, paths });
  if (json === true) console.log(JSON.stringify(generated, undefined, 2));
  else {
    for (const { files: written, contracts } of generated) {
      console.log(written.map((file) => relative('', file)).join('\n'));
      console.log(`  contracts: ${contracts.join(', ')}`);
    }
  }
  return 0;
}

async function showPages(operands: string[], values: Values): Promise<number> {
  const { interval, timeout, json = false, payload, jsonl, pcapng, count } = values;
  if (payload ?? jsonl ?? pcapng ?? count) {
    throw new Misuse('--payload, --jsonl, --pcapng and --count are not for --web');
  }
  const { serveWeb } = await import('./web/web.ts');
  await serveWeb(operands, {
    intervalMs: numberOf('--interval', interval, topInterval) ?? topInterval.standard,
    timeoutMs: timeoutOf(timeout, inspectTimeout) ?? inspectTimeout.standard,
    isJson: json,
  });
  return 0;
}

async function lookInto([operand, ...more]: string[], values: Values): Promise<number> {
  if (operand === undefined || more.length > 0) {
    throw new Misuse('inspect needs one PID, PATH or FILE; with --web it takes any number');
  }
  if (values.interval !== undefined) {
    throw new Misuse('inspect looks once: --interval is for inspect --web and for top');
  }
  const timeoutMs = timeoutOf(values.timeout, inspectTimeout) ?? inspectTimeout.standard;
  const shows = process.stderr.isTTY === true && values.json !== true;
  const inspected = await inspect(operand, {
    timeoutMs,
    payload: values.payload,
    onProgress: (arrived, ofAll) => {
      if (shows) process.stderr.write(`\r\u001b[Ksession ${arrived} of ${ofAll} …`);
    },
  });
  if (shows) process.stderr.write('\r\u001b[K');
  const { jsonl = false, pcapng: file, payload = false } = values;
  if (payload && 'recording' in inspected) {
    throw new Misuse('--payload: the recording of a helper has headers of frames, and no payload');
  }
  if (jsonl || file !== undefined) {
    if (!('recording' in inspected)) {
      throw new Misuse(
        '--jsonl and --pcapng are for the recording of a helper: recording().save(FILE)',
      );
    }
    if (file !== undefined) await writeNew(file, [pcapng(inspected.recording)]);
    if (jsonl) for (const line of jsonLines(inspected.recording)) console.log(line);
    return faultsOf(inspected).length === 0 ? 0 : 1;
  }
  const report = 'ring' in inspected ? inspected.ring : inspected;
  const isJson = values.json === true;
  const json = (): string => printableJson(JSON.stringify(report, undefined, 2));
  console.log(isJson ? json() : printInspection(inspected));
  return faultsOf(inspected).length === 0 ? 0 : 1;
}

async function showTop([operand]: string[], values: Values): Promise<number> {
  const { interval, timeout, count, json = false } = values;
  const format = json ? 'json' : process.stdout.isTTY === true ? 'terminal' : 'text';
  await top({
    intervalMs: numberOf('--interval', interval, topInterval) ?? topInterval.standard,
    timeoutMs: timeoutOf(timeout, inspectTimeout) ?? inspectTimeout.standard,
    count: numberOf('--count', count, lookCount),
    pid: await processOf(operand as string),
    format,
    hasColor: values['no-color'] !== true && !process.env.NO_COLOR,
  });
  return 0;
}

function relayProgram([command, ...args]: string[], values: Values): Promise<number> {
  const { framing = 'content-length', listen: path } = values;
  if (framing !== 'content-length' && framing !== 'newline') {
    throw new Misuse(`--framing must be content-length or newline, got '${framing}'`);
  }
  return relay({ command: command as string, args, framing, path });
}

/** @throws {Misuse} for an option that is no uid, or no mode. */
function placeOf(path: string, { uid, mode }: Values): Place {
  if (uid !== undefined && !(/^\d{1,10}$/.test(uid) && Number(uid) < 0xffff_ffff)) {
    throw new Misuse(`--uid must be the number of a user, got '${uid}'`);
  }
  if (mode !== undefined && !/^[0-7]{3,4}$/.test(mode)) {
    throw new Misuse(`--mode must be octal permissions such as 0660, got '${mode}'`);
  }
  return { path, uid: uid === undefined ? undefined : Number(uid), mode };
}

function timeoutOf(given: string | undefined, range = timeoutRange): number | undefined {
  return numberOf('--timeout', given, range);
}

/** @throws {Misuse} for what is no number in its range: an empty text is not 0. */
function numberOf(option: string, given: string | undefined, range: Range): number | undefined {
  if (given === undefined) return undefined;
  try {
    if (/^\d+$/.test(given)) return checkInteger(option, Number(given), range);
  } catch (error) {
    throw new Misuse(errorText(error));
  }
  throw new Misuse(`${option} must be ${range.of}, got '${given}'`);
}
