#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// The command `sidecall`.
import { parseArgs } from 'node:util';
import { version } from '../version.ts';
import { type DoctorReport, examine } from './doctor.ts';
import { printReport } from './print.ts';

const usage = `sidecall ${version}: calls between two processes on one machine

Usage: sidecall doctor [--json]

  doctor      What works on this machine, and why what does not: the addon, the kernel, limits, paths, the lane
              that two processes get, and a self-test of one second with a second process.

  --json      The whole report as one JSON object.
  --no-color  Plain text. So do NO_COLOR in the environment, and an output that is no terminal.
  --version   The version of the package.
  --help      This text.

Exit status: 0 where all is well, 1 where something does not work, 2 for wrong usage.`;

async function main(): Promise<number> {
  const { values, positionals } = parse();
  if (values.version === true) return say(version);
  if (values.help === true) return say(usage);
  const [command, ...more] = positionals;
  if (command === undefined) return misuse('which command?');
  if (command !== 'doctor') return misuse(`there is no command '${command}'`);
  if (more.length > 0) return misuse(`doctor takes no '${more[0]}'`);
  const isJson = values.json === true;
  const onTerminal = process.stdout.isTTY === true && !isJson;
  const report = await examine((step) => {
    if (onTerminal) process.stdout.write(`\r\u001b[K${step} …`);
  });
  if (onTerminal) process.stdout.write('\r\u001b[K');
  const hasColor = onTerminal && values['no-color'] !== true && !process.env.NO_COLOR;
  print(report, isJson, hasColor);
  return report.ok ? 0 : 1;
}

function parse(): {
  values: { json?: boolean; help?: boolean; version?: boolean; 'no-color'?: boolean };
  positionals: string[];
} {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        json: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
        version: { type: 'boolean', short: 'v' },
        'no-color': { type: 'boolean' },
      },
    });
  } catch (error) {
    process.exit(misuse((error as Error).message));
  }
}

function print(report: DoctorReport, isJson: boolean, hasColor: boolean): void {
  if (isJson) console.log(JSON.stringify(report, undefined, 2));
  else console.log(printReport(report, hasColor));
}

function say(words: string): number {
  console.log(words);
  return 0;
}

function misuse(words: string): number {
  console.error(`sidecall: ${words}\n\n${usage}`);
  return 2;
}

process.exitCode = await main();
