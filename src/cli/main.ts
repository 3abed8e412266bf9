#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// The command `sidecall`.
import { parseArgs } from 'node:util';
import { errorText } from '../base/error-text.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { checkInteger } from '../base/misuse.ts';
import { version } from '../base/version.ts';
import { examine } from './doctor.ts';
import { parseJson, printJson } from './json.ts';
import { printPath, printReport, printServices } from './print.ts';
import { call, examinePath, list } from './remote.ts';

const usage = `sidecall ${version}: calls between two processes on one machine

Usage: sidecall doctor [PATH] [--json]
       sidecall list PATH [--json]
       sidecall call PATH METHOD [JSON] [--timeout MS]

  doctor      What works on this machine, and why what does not: the addon, the kernel, limits, paths, the lane
              that two processes get, and a self-test of one second with a second process.
  doctor PATH What is at a path: a live listener and who it is, a dead socket, somebody else's.
  list        What a listener of yours serves: services, methods, their kinds and codecs.
  call        Calls a method of one, with JSON, and prints what it answers, a line for each response. Bytes are written
              as {"$bytes":"base64"}, in both directions.

  --json      The whole report as JSON.
  --timeout   Milliseconds until the call fails. Default: 30000.
  --no-color  Plain text. So do NO_COLOR in the environment, and an output that is no terminal.
  --version   The version of the package.
  --help      This text.

Exit status: 0 where all is well, 1 where something does not work or the call failed, 2 for wrong usage.`;

const timeoutRange = { standard: 30_000, min: 0, max: 2_147_483_647 };

async function main(): Promise<number> {
  const { values, positionals } = parse();
  if (values.version === true) return say(version);
  if (values.help === true) return say(usage);
  const [command, ...operands] = positionals;
  const known = command === undefined ? undefined : commands.get(command);
  if (command === undefined) return misuse('which command?');
  if (known === undefined) return misuse(`there is no command '${command}'`);
  const [least, most] = known.operands;
  if (operands.length < least) return misuse(`${command} needs ${known.needs}`);
  if (operands.length > most) return misuse(`${command} takes no '${operands[most]}'`);
  try {
    return await known.run(operands, values);
  } catch (error) {
    if (error instanceof Misuse) return misuse(error.message);
    const code = SidecallError.is(error)
      ? `${RpcError.is(error) ? error.status : error.code}: `
      : '';
    console.error(`sidecall ${command}: ${code}${errorText(error)}`);
    return 1;
  }
}

interface Values {
  readonly json?: boolean;
  readonly help?: boolean;
  readonly version?: boolean;
  readonly 'no-color'?: boolean;
  readonly timeout?: string;
}

interface Command {
  /** At least and at most. */
  readonly operands: readonly [number, number];
  readonly needs: string;
  readonly run: (operands: string[], values: Values) => Promise<number>;
}

class Misuse extends Error {}

const commands = new Map<string, Command>([
  ['doctor', { operands: [0, 1], needs: '', run: doctor }],
  ['list', { operands: [1, 1], needs: 'the PATH of a listener', run: listServices }],
  ['call', { operands: [2, 3], needs: 'the PATH of a listener and a METHOD', run: callMethod }],
]);

async function doctor([path]: string[], values: Values): Promise<number> {
  const isJson = values.json === true;
  if (path !== undefined) {
    const report = await examinePath(path);
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
  const services = await list(path as string);
  if (values.json === true) console.log(JSON.stringify(services, undefined, 2));
  else console.log(printServices(services));
  return 0;
}

async function callMethod([path, method, text]: string[], values: Values): Promise<number> {
  const timeoutMs = timeoutOf(values.timeout);
  let request: unknown;
  try {
    checkInteger('--timeout', timeoutMs, timeoutRange);
  } catch (error) {
    throw new Misuse(errorText(error));
  }
  try {
    request = text === undefined ? undefined : parseJson(text);
  } catch (error) {
    throw new Misuse(`the request '${text}' is no JSON: ${errorText(error)}`);
  }
  const options = { timeoutMs: timeoutMs ?? timeoutRange.standard };
  await call(path as string, method as string, request, options, (value) => {
    console.log(printJson(value));
  });
  return 0;
}

/** @throws {Misuse} for what is no whole number: an empty text is not 0. */
function timeoutOf(given: string | undefined): number | undefined {
  if (given === undefined || /^\d+$/.test(given))
    return given === undefined ? given : Number(given);
  throw new Misuse(`--timeout must be a number of milliseconds, got '${given}'`);
}

function parse(): { values: Values; positionals: string[] } {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        json: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
        version: { type: 'boolean', short: 'v' },
        'no-color': { type: 'boolean' },
        timeout: { type: 'string' },
      },
    });
  } catch (error) {
    process.exit(misuse((error as Error).message));
  }
}

function say(words: string): number {
  console.log(words);
  return 0;
}

function misuse(words: string): number {
  console.error(`sidecall: ${words}\n\n${usage}`);
  return 2;
}

// EPIPE: the reader of our output has closed it, as in `sidecall list … | head -1`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
process.exitCode = await main();
