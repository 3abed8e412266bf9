// SPDX-License-Identifier: MIT
// The type of the key-values that go with a call.

/**
 * Key-values of a call. Keys ending in `-bin` hold bytes, all others strings. As in gRPC, a `-bin`
 * key may have several values, which are an array then.
 */
export type Metadata = { readonly [key: string]: MetadataValue };

/** Value of a key of {@link Metadata}. */
export type MetadataValue = string | Uint8Array | readonly Uint8Array[];
