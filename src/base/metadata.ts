// SPDX-License-Identifier: MIT
// The type of the key-values that go with a call.

/** Key-values of a call. Keys ending in `-bin` hold bytes, all others strings. */
export type Metadata = { readonly [key: string]: string | Uint8Array };
