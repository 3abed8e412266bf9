// SPDX-License-Identifier: MIT
// Values checked by a schema, on the way out and on the way in. Any validator that speaks Standard
// Schema (https://standardschema.dev): zod, valibot, arktype and others.
import { isPromise } from '../../base/brands.ts';
import { nodeError } from '../../base/misuse.ts';
import { type Codec, RefusedValue } from './codec.ts';
import { json } from './json.ts';
import { checkCodec } from './service.ts';

/** The part of Standard Schema (version 1) that is used here. */
export interface StandardSchema<In, Out> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Out> | Promise<SchemaResult<Out>>;
    readonly types?: { readonly input: In; readonly output: Out } | undefined;
  };
}

/** The result of `validate`. */
export type SchemaResult<Out> =
  | { readonly value: Out; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** Why a value was refused. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

const issuesMax = 16;
const wordsMax = 200;

/**
 * A codec whose values fit a schema. On the way out a value that does not fit fails the call with
 * `ERR_SIDECALL_ENCODE` and is sent as it is otherwise. On the way in, the schema's output is what
 * the handler (or caller) gets: a request that does not fit is answered with `invalid_argument`
 * and, as details, up to 16 issues of the form `{ path, message }`; an answer that does not fit
 * rejects with `ERR_SIDECALL_DECODE`. The schema must answer at once.
 * @param codec what carries the value. Default: JSON.
 * @throws {TypeError} `ERR_INVALID_ARG_TYPE` for what is no Standard Schema.
 * @example
 * ```ts
 * import { type StandardSchema, service, unary, validated } from 'sidecall';
 *
 * // A schema of zod, valibot or arktype.
 * declare const Query: StandardSchema<{ text: string }, { text: string }>;
 *
 * const Search = service('Search', { find: unary({ request: validated(Query) }) });
 * ```
 */
export function validated<In, Out>(
  schema: StandardSchema<In, Out>,
  codec: Codec<unknown> = json(),
): Codec<Out, In> {
  const standard = (schema as Partial<StandardSchema<In, Out>> | undefined)?.['~standard'];
  if (standard?.version !== 1 || typeof standard.validate !== 'function') {
    const text = 'validated() needs a schema that speaks Standard Schema, version 1';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  checkCodec('validated()', codec);
  const check = (value: unknown): Out => {
    const result = standard.validate(value);
    if (isPromise(result)) {
      Promise.resolve(result).catch(() => undefined);
      throw new TypeError('the schema answers later; only one that answers at once can be used');
    }
    if (result.issues === undefined) return result.value;
    const issues = result.issues.slice(0, issuesMax).map(plainIssue);
    const first = issues[0];
    const where = first?.path ? `${first.path}: ` : '';
    throw new RefusedValue(`${where}${first?.message}`, { issues });
  };
  return {
    name: `${codec.name}, validated by ${standard.vendor}`,
    copiesBytes: codec.copiesBytes,
    borrowsBytes: codec.borrowsBytes,
    isRaw: codec.isRaw,
    reusesBytes: codec.reusesBytes,
    encode: (value) => {
      check(value);
      return codec.encode(value);
    },
    decode: (bytes, isOwned, jsonMaxBytes) => check(codec.decode(bytes, isOwned, jsonMaxBytes)),
  };
}

function plainIssue({ path = [], message }: SchemaIssue): { path: string; message: string } {
  const keys = path.map((part) => String(typeof part === 'object' ? part.key : part));
  return { path: keys.join('.').slice(0, wordsMax), message: String(message).slice(0, wordsMax) };
}
