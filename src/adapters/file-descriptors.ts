// SPDX-License-Identifier: MIT
// The `.proto` files of services as descriptors, by name and by symbol, as reflection gives them to
// tools.
import type protobufjs from 'protobufjs';
import descriptorModule from 'protobufjs/ext/descriptor/index.js';
import type { Service } from '../rpc/contract/method-types.ts';
import {
  type FieldProto,
  type FileProto,
  filesOfRoot,
  joined,
  type MessageProto,
} from './root-files.ts';

// Its declarations name nothing of this; versions 7 and 8 have it at this path.
const { FileDescriptorProto } = descriptorModule as unknown as {
  readonly FileDescriptorProto: protobufjs.Type;
};

interface KnownFile {
  readonly bytes: Uint8Array;
  readonly dependencies: readonly string[];
}

/** The descriptors of a set of services. */
export class FileDescriptors {
  /** The names of all services, those without a descriptor included. */
  readonly serviceNames: readonly string[];
  readonly #files = new Map<string, KnownFile>();
  /** The file of each service, method, message, enum and extension, by its full name. */
  readonly #symbols = new Map<string, string>();
  /** The file of each extension, by the name of the message that it extends and its number. */
  readonly #extensions = new Map<string, Map<number, string>>();

  constructor(services: readonly Service[]) {
    this.serviceNames = [...new Set(services.map(({ name }) => name))];
    const texts = new Set<string>();
    for (const { descriptor: json, fileDescriptors } of services) {
      for (const bytes of fileDescriptors?.() ?? []) {
        this.#add(FileDescriptorProto.decode(bytes) as unknown as FileProto, bytes);
      }
      if (json === undefined || fileDescriptors !== undefined) continue;
      const text = JSON.stringify(json(), finite);
      if (texts.has(text)) continue; // services of the same root
      texts.add(text);
      for (const file of filesOfRoot(text, (name) => this.#files.has(name))) {
        this.#add(file, FileDescriptorProto.encode(file as never).finish());
      }
    }
  }

  /** A file and all that it imports, itself first; undefined: it is not known. */
  byFile(name: string): readonly Uint8Array[] | undefined {
    if (!this.#files.has(name)) return undefined;
    const names = new Set([name]); // a set is iterated with what is added meanwhile
    const found: Uint8Array[] = [];
    for (const each of names) {
      const file = this.#files.get(each);
      if (file === undefined) continue;
      found.push(file.bytes);
      for (const dependency of file.dependencies) names.add(dependency);
    }
    return found;
  }

  /** The file that declares a service, method, message or enum, as {@link byFile}. */
  bySymbol(symbol: string): readonly Uint8Array[] | undefined {
    const file = this.#symbols.get(symbol.replace(/^\./, ''));
    return file === undefined ? undefined : this.byFile(file);
  }

  /** The file that declares an extension of a message, as {@link byFile}. */
  byExtension(extended: string, number: number): readonly Uint8Array[] | undefined {
    const file = this.#extensions.get(extended.replace(/^\./, ''))?.get(number);
    return file === undefined ? undefined : this.byFile(file);
  }

  /** The numbers of the extensions of a message. */
  extensionsOf(extended: string): readonly number[] {
    return [...(this.#extensions.get(extended.replace(/^\./, ''))?.keys() ?? [])];
  }

  #add(file: FileProto, bytes: Uint8Array): void {
    const { name, dependency: dependencies = [] } = file;
    if (this.#files.has(name)) return;
    this.#files.set(name, { bytes, dependencies });
    for (const symbol of symbolsOf(file)) {
      if (!this.#symbols.has(symbol)) this.#symbols.set(symbol, name);
    }
    for (const { extendee = '', number } of extensionsOf(file)) {
      const extended = extendee.replace(/^\./, '');
      const files = this.#extensions.get(extended) ?? new Map<number, string>();
      if (!files.has(number)) this.#extensions.set(extended, files.set(number, name));
    }
  }
}

/** JSON has no numbers that are not finite, which the default of a field may be. */
function finite(_: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
}

function* symbolsOf(file: FileProto): Generator<string> {
  const scope = file.package;
  for (const message of file.messageType ?? []) yield* symbolsOfMessage(message, scope);
  for (const { name } of file.enumType ?? []) yield joined(scope, name);
  for (const { name } of file.extension ?? []) yield joined(scope, name);
  for (const { name, method } of file.service ?? []) {
    const service = joined(scope, name);
    yield service;
    for (const each of method ?? []) yield `${service}.${each.name}`;
  }
}

function* symbolsOfMessage(message: MessageProto, scope: string | undefined): Generator<string> {
  const name = joined(scope, message.name);
  yield name;
  for (const nested of message.nestedType ?? []) yield* symbolsOfMessage(nested, name);
  for (const each of message.enumType ?? []) yield joined(name, each.name);
  for (const each of message.extension ?? []) yield joined(name, each.name);
}

function* extensionsOf({ extension, ...parts }: FileProto | MessageProto): Generator<FieldProto> {
  yield* extension ?? [];
  const messages = 'nestedType' in parts ? parts.nestedType : (parts as FileProto).messageType;
  for (const message of messages ?? []) yield* extensionsOf(message);
}
