// SPDX-License-Identifier: MIT
// The commands and options of `sidecall`, with the texts that explain them.
import { version } from '../base/version.ts';

interface CommandUsage {
  /** Its operands, for each way to use it. */
  readonly usage: readonly string[];
  /** Lines of the help. */
  readonly help: string;
}

/** By name, in the order of the help. */
const commands = {
  doctor: {
    usage: ['doctor [PATH] [options]'],
    help: `\
  doctor      Checks this machine and gives the reason for each feature that does not work: the addon, the kernel, limits,
              paths, the lane that two processes get, and a self-test of one second with a second process.
  doctor PATH Reports the listener at a path (pid, uid, lane), a dead socket, or a socket of another user.`,
  },
  list: {
    usage: ['list PATH [options]'],
    help: `\
  list        Lists the services of a listener: methods, their kinds and codecs.`,
  },
  call: {
    usage: ['call PATH METHOD [JSON… | - | @FILE] [options]'],
    help: `\
  call        Calls a method of a listener, and prints each response as a line of JSON. The request is JSON
              in the arguments, from standard input (-) or in a file (@FILE); a stream of requests is one for each
              argument, or one for each line. Bytes are written as {"$bytes":"base64"}, in both directions;
              those of protobuf as base64.`,
  },
  ps: {
    usage: ['ps [options]'],
    help: `\
  ps          The shared helpers of this user: name, version, process, the programs that use it, and since when.`,
  },
  stop: {
    usage: ['stop NAME [--key KEY] [--force] [options]'],
    help: `\
  stop        Ends a shared helper: its calls finish first. One that does not answer needs --force.`,
  },
  relay: {
    usage: ['relay [--listen PATH] [--framing NAME] -- COMMAND [ARGUMENT…]'],
    help: `\
  relay       Runs a program that speaks JSON-RPC over its standard input and output (a language server, an MCP
              server), and passes its messages to the process that started the relay by spawnHelper(), or, with
              --listen, to each process that connects to PATH: a program for each. Ends as the program ends.`,
  },
  gen: {
    usage: ['gen FILE.proto… [--out DIR] [--path DIR]… [options]'],
    help: `\
  gen         Makes typed contracts from .proto files: FILE_pb.js with the messages, FILE_sidecall.js with a contract
              for each service, and their types. Needs protobufjs-cli in the project.`,
  },
  inspect: {
    usage: ['inspect PID|PATH|FILE [options]', 'inspect --web [PID|PATH|FILE]… [options]'],
    help: `\
  inspect PID Looks into a process of your own user that allows it (SIDECALL_INSPECT=1 in its environment, or
              configure({ inspection: true })): its sessions, open calls and their waits, windows, leases, and of rings
              the cursors, which side sleeps, the headers of unread frames, and faults. No payload is shown.
              With the PATH at which a process listens: that process. With a FILE: a saved copy of a ring
              (session.inspect().ring.save(FILE)), or the recording of a helper (helper.recording().save(FILE)): the
              handlers that ran and the last frames before it ended; --jsonl and --pcapng export that. Exits with 1 where
              it finds a fault, or cannot look into the process.
  inspect --web
              Serves a page on this machine and prints its link, which is for you alone: sessions, charts, windows, rings
              and calls as they happen, and saved recordings. Without a PID, PATH or FILE: all processes that allow it.
              Ends by Ctrl+C.`,
  },
  top: {
    usage: ['top PID|PATH [--interval MS] [--count N] [options]'],
    help: `\
  top         Shows the sessions of a process that allows it (as for inspect), once a second: calls, latency, bytes, waits.
              The keys c, l, b, w and i sort by calls, latency, bytes, waits and session; arrows and enter look into one
              session, q ends. Without a terminal it prints the table as text, with --json a line of JSON for each look.`,
  },
} satisfies Record<string, CommandUsage>;

/** A command of `sidecall`. */
export type CommandName = keyof typeof commands;

export const commandNames = Object.keys(commands);

export function isCommand(name: string): name is CommandName {
  return Object.hasOwn(commands, name);
}

interface Option {
  readonly type: 'string' | 'boolean';
  readonly short?: string;
  readonly multiple?: boolean;
  /** The commands that take it; undefined: all. */
  readonly of?: readonly CommandName[];
  readonly help: string;
}

/** By name, in the order of the help. */
export const options = {
  uid: {
    type: 'string',
    of: ['doctor', 'list', 'call'],
    help: `\
  --uid UID   The numeric user id that the listener at PATH must have. Default: your own.`,
  },
  mode: {
    type: 'string',
    of: ['doctor', 'list', 'call'],
    help: `\
  --mode MODE The permissions that the socket file must have, such as 0660. Default: no other user may write it.`,
  },
  listen: {
    type: 'string',
    of: ['relay'],
    help: `\
  --listen PATH    Where the relay listens. Programs of your own user may connect; 64 at a time.`,
  },
  framing: {
    type: 'string',
    of: ['relay'],
    help: `\
  --framing NAME   How the messages of the program follow each other: content-length (the default: language servers)
                   or newline (MCP servers).`,
  },
  out: {
    type: 'string',
    of: ['gen'],
    help: `\
  --out DIR   Where gen writes. Default: beside each file.`,
  },
  path: {
    type: 'string',
    multiple: true,
    of: ['gen'],
    help: `\
  --path DIR  Where gen looks for imported files, too; may be given several times.`,
  },
  key: {
    type: 'string',
    of: ['stop'],
    help: `\
  --key KEY   The shared helper of this key. Default: all of the name.`,
  },
  force: {
    type: 'boolean',
    of: ['stop'],
    help: `\
  --force     Ends a shared helper that does not answer by SIGKILL.`,
  },
  timeout: {
    type: 'string',
    of: ['call', 'stop', 'inspect', 'top'],
    help: `\
  --timeout MS     For call and stop: milliseconds until the call fails, or the helper must have ended. Default: 30000.
                   For inspect and top: the longest wait for an answer, 100 to 600000. Default: 3000.`,
  },
  interval: {
    type: 'string',
    of: ['inspect', 'top'],
    help: `\
  --interval MS    For top and inspect --web: milliseconds between two looks, 100 to 60000. Default: 1000.`,
  },
  count: {
    type: 'string',
    of: ['top'],
    help: `\
  --count N   For top: ends after so many looks, 1 or more. Default: goes on until the process ends or q is pressed.`,
  },
  jsonl: {
    type: 'boolean',
    of: ['inspect'],
    help: `\
  --jsonl     For inspect, of a recording: lines of JSON, one for the process, one for each handler that ran, one for each
              event.`,
  },
  pcapng: {
    type: 'string',
    of: ['inspect'],
    help: `\
  --pcapng OUT     For inspect, of a recording: writes the new file OUT for Wireshark, which shows it with
                   node_modules/sidecall/tools/wireshark/sidecall.lua.`,
  },
  payload: {
    type: 'boolean',
    of: ['inspect'],
    help: `\
  --payload   For inspect: the first 256 bytes of each unread message. The process must allow it (SIDECALL_INSPECT=payload,
              or configure({ inspection: 'payload' })); a saved ring has them.`,
  },
  web: {
    type: 'boolean',
    of: ['inspect'],
    help: `\
  --web       For inspect: a page for the browser.`,
  },
  json: {
    type: 'boolean',
    help: `\
  --json      The whole report, of top each look, or what failed, as JSON; failures on standard error.`,
  },
  'no-color': {
    type: 'boolean',
    help: `\
  --no-color  Plain text; also the case with NO_COLOR in the environment, or without a terminal.`,
  },
  version: {
    type: 'boolean',
    short: 'v',
    help: `\
  --version   The version of the package.`,
  },
  help: {
    type: 'boolean',
    short: 'h',
    help: `\
  --help      This text; behind a command, that of the command.`,
  },
} satisfies Record<string, Option>;

/** The options as they were given. */
export interface Values {
  readonly uid?: string;
  readonly mode?: string;
  readonly listen?: string;
  readonly framing?: string;
  readonly json?: boolean;
  readonly help?: boolean;
  readonly version?: boolean;
  readonly 'no-color'?: boolean;
  readonly timeout?: string;
  readonly interval?: string;
  readonly count?: string;
  readonly key?: string;
  readonly force?: boolean;
  readonly out?: string;
  readonly path?: string[];
  readonly jsonl?: boolean;
  readonly pcapng?: string;
  readonly web?: boolean;
  readonly payload?: boolean;
}

/** The options of a command, in the order of the help. */
const optionsOf = (command: CommandName | undefined): [string, Option][] =>
  Object.entries<Option>(options).filter(
    ([, { of }]) => command === undefined || of === undefined || of.includes(command),
  );

/** How to use a command, or all of them. */
export function usageOf(command?: CommandName): string {
  const { usage } = command === undefined ? { usage: allUsages() } : commands[command];
  return `Usage: ${usage.map((each) => `sidecall ${each}`).join('\n       ')}`;
}

/** The help of a command, or of all. */
export function helpOf(command?: CommandName): string {
  const explained = command === undefined ? Object.values(commands) : [commands[command]];
  return `sidecall ${version}: calls between two processes on one machine

${usageOf(command)}

${explained.map(({ help }) => help).join('\n')}

${optionsOf(command)
  .map(([, { help }]) => help)
  .join('\n')}

Exit status: 0 where all is well, 1 where something does not work or the call failed, 2 for wrong usage. relay exits
with the status of its program, or with 127 where there is no such program.`;
}

/** The words for an option that the command does not take; undefined: it takes it. */
export function notTaken(command: CommandName, option: string): string | undefined {
  const { of }: Option = options[option as keyof typeof options];
  if (of === undefined || of.includes(command)) return undefined;
  const takers = of.length < 2 ? of : [of.slice(0, -1).join(', '), of.at(-1)];
  return `${command} takes no --${option}: it is for ${takers.join(' and ')}`;
}

function allUsages(): string[] {
  return Object.values(commands).flatMap(({ usage }) => usage);
}
