// SPDX-License-Identifier: MIT
// Types that JSON carries, as the compiler can know them.

// biome-ignore lint/suspicious/noConfusingVoidType: a method without a request is `unary<void, …>()`
type Carried = string | number | boolean | null | undefined | void | Uint8Array;

/**
 * Any function. JSON drops the methods of an object, so that a class with methods arrives without
 * them.
 */
type AnyFunction = (...args: never[]) => unknown;

/** The reason why JSON does not carry a type; the compiler shows the text. */
type Refusal<T> = T extends bigint
  ? 'JSON carries no bigint: declare a string or a number'
  : T extends symbol
    ? 'JSON carries no symbol'
    : T extends AnyFunction
      ? 'JSON carries no function: declare an interface without methods'
      : T extends Date
        ? 'a Date arrives as a string: declare a string'
        : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
          ? 'JSON carries no Map and no Set: declare an object or an array'
          : T extends WeakKey & (Promise<unknown> | RegExp | Error)
            ? 'JSON carries plain objects only'
            : T extends ArrayBufferLike | ArrayBufferView
              ? 'JSON carries bytes as Uint8Array only'
              : never;

/** Levels of members that the compiler looks at: a type that contains itself has no end. */
type Deepest = 8;

/**
 * The type itself where JSON carries it as it is; text that says why not stands in the place of
 * what it does not carry.
 */
type Carriable<T, Above extends readonly unknown[] = []> = unknown extends T
  ? T
  : Above['length'] extends Deepest
    ? T
    : T extends Carried
      ? T
      : [Refusal<T>] extends [never]
        ? { [Name in keyof T]: Carriable<T[Name], [...Above, unknown]> }
        : Refusal<T>;

/**
 * Stands for a method or a codec of a type that JSON does not carry: nothing takes it. `Why` names
 * the place.
 */
export interface NotCarriedByJson<Why> {
  readonly needsItsOwnCodec: Why;
}

/**
 * `Then` where JSON carries `T` as it is, so that a contract cannot promise a `Date` to its
 * receiver. Carried are texts, numbers, `true` and `false`, `null`, `undefined`, `Uint8Array`, and
 * arrays and objects of these; `unknown` and `any` are taken on trust.
 */
export type IfJson<T, Then, Why = Carriable<T>> = [T] extends [Why] ? Then : NotCarriedByJson<Why>;
