// SPDX-License-Identifier: MIT
// The requests of `sidecall call`: JSON in the arguments, in a file, or from standard input.
import { open, readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { text as textOf } from 'node:stream/consumers';
import { errorText } from '../base/error-text.ts';
import { parseJson } from './json.ts';
import { Misuse } from './misuse.ts';

/** The requests, in the form that the kind of the method needs. */
export interface Requests {
  /**
   * The only request; undefined where none was given.
   * @throws {Misuse} for several, and for what is no JSON.
   */
  one(): Promise<unknown>;
  /**
   * The requests of a stream, each read when it is wanted: one for each argument, or one for each
   * line of a file or of standard input.
   * @throws {Misuse} for what is no JSON.
   */
  each(): AsyncIterable<unknown>;
}

/**
 * `operands`: JSON texts, or one `-` (standard input) or `@FILE`.
 * @throws {Misuse} for a text that is no JSON.
 */
export function requestsOf(operands: readonly string[]): Requests {
  const [first] = operands;
  const isRead = first === '-' || first?.startsWith('@') === true;
  if (isRead) {
    if (operands.length > 1) throw new Misuse(`'${first}' stands alone`);
    return {
      one: async () => parse(await readAll(first), placeOf(first)),
      each: () => lines(first),
    };
  }
  const values = operands.map((text) => parse(text, `the request '${text}'`));
  return {
    async one() {
      if (values.length > 1) throw new Misuse('the method takes one request');
      return values[0];
    },
    async *each() {
      yield* values;
    },
  };
}

async function readAll(operand: string): Promise<string> {
  if (operand === '-') return textOf(process.stdin);
  try {
    return await readFile(operand.slice(1), 'utf8');
  } catch (error) {
    throw new Misuse(`${placeOf(operand)} cannot be read: ${errorText(error)}`);
  }
}

async function* lines(operand: string): AsyncGenerator<unknown> {
  const input = operand === '-' ? process.stdin : await streamOf(operand);
  let line = 0;
  for await (const text of createInterface({ input, crlfDelay: Infinity })) {
    line += 1;
    if (text.trim() !== '') yield parse(text, `line ${line} of ${placeOf(operand)}`);
  }
}

async function streamOf(operand: string): Promise<NodeJS.ReadableStream> {
  try {
    return (await open(operand.slice(1))).createReadStream();
  } catch (error) {
    throw new Misuse(`${placeOf(operand)} cannot be read: ${errorText(error)}`);
  }
}

function placeOf(operand: string): string {
  return operand === '-' ? 'standard input' : operand.slice(1);
}

function parse(text: string, what: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw new Misuse(`${what} is no JSON: ${errorText(error)}`);
  }
}
