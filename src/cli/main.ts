#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// The command `sidecall`.
import { parseArgs } from 'node:util';
import { didYouMean } from '../base/closest.ts';
import { version } from '../base/version.ts';
import { Misuse } from './misuse.ts';
import {
  type CommandName,
  commandNames,
  helpOf,
  isCommand,
  options,
  usageOf,
  type Values,
} from './usage.ts';

async function main(): Promise<number> {
  const { values, positionals } = parse();
  if (values.version === true) return say(version);
  const [command, ...operands] = positionals;
  if (command === undefined) return values.help ? say(helpOf()) : misuse('which command?');
  if (!isCommand(command)) {
    return misuse(`there is no command '${command}'${didYouMean(command, commandNames)}`);
  }
  if (values.help === true) return say(helpOf(command));
  // Only here: the version and the help need nothing else of the package.
  const { runCommand } = await import('./commands.ts');
  try {
    return await runCommand(command, operands, values);
  } catch (error) {
    if (error instanceof Misuse) return misuse(error.message, command);
    throw error;
  }
}

function parse(): { values: Values; positionals: string[] } {
  try {
    return parseArgs({ allowPositionals: true, options });
  } catch (error) {
    process.exit(misuse((error as Error).message));
  }
}

function say(words: string): number {
  console.log(words);
  return 0;
}

function misuse(words: string, command?: CommandName): number {
  const help = command === undefined ? 'sidecall --help' : `sidecall ${command} --help`;
  console.error(`sidecall: ${words}\n\n${usageOf(command)}\n\n"${help}" explains more.`);
  return 2;
}

// EPIPE: the reader of our output has closed it, as in `sidecall list … | head -1`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
process.exitCode = await main();
