// SPDX-License-Identifier: MIT
// The `.proto` files of services as descriptors, by name and by symbol, as reflection gives them to
// tools.
import protobufjs from 'protobufjs';
import descriptorModule from 'protobufjs/ext/descriptor/index.js';
import type { Service } from '../rpc/contract/method-types.ts';

// Its declarations name nothing of this; versions 7 and 8 have it at this path.
const { FileDescriptorProto } = descriptorModule as unknown as {
  readonly FileDescriptorProto: protobufjs.Type;
};

/** The members of a descriptor that are read or mended here. */
interface FileProto {
  name: string;
  package?: string;
  dependency?: string[];
  messageType?: MessageProto[];
  enumType?: NamedProto[];
  service?: ServiceProto[];
}
interface NamedProto {
  name: string;
}
interface ServiceProto extends NamedProto {
  method?: { name: string; inputType: string; outputType: string }[];
}
interface MessageProto extends NamedProto {
  field?: FieldProto[];
  nestedType?: (MessageProto & { options?: { mapEntry?: boolean } })[];
  enumType?: NamedProto[];
  oneofDecl?: NamedProto[];
}
interface FieldProto extends NamedProto {
  typeName?: string;
  oneofIndex?: number | null;
  proto3Optional?: boolean;
}

interface KnownFile {
  readonly bytes: Uint8Array;
  readonly dependencies: readonly string[];
}

/** The descriptors of a set of services. */
export class FileDescriptors {
  /** The names of all services, those without a descriptor included. */
  readonly serviceNames: readonly string[];
  readonly #files = new Map<string, KnownFile>();
  /** The file of each service, method, message and enum, by its full name. */
  readonly #symbols = new Map<string, string>();

  constructor(services: readonly Service[]) {
    this.serviceNames = [...new Set(services.map(({ name }) => name))];
    const texts = new Set<string>();
    for (const { descriptor: json, fileDescriptors } of services) {
      for (const bytes of fileDescriptors?.() ?? []) {
        this.#add(FileDescriptorProto.decode(bytes) as unknown as FileProto, bytes);
      }
      if (json === undefined || fileDescriptors !== undefined) continue;
      const text = JSON.stringify(json());
      if (texts.has(text)) continue; // services of the same root
      texts.add(text);
      for (const file of filesOfRoot(text)) this.#add(file, undefined);
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

  #add(file: FileProto, given: Uint8Array | undefined): void {
    if (given === undefined) {
      // Two roots may each have a file of this package.
      const { name } = file;
      for (let count = 2; this.#files.has(file.name); count += 1) {
        file.name = name.replace(/\.proto$/, `_${count}.proto`);
      }
    } else if (this.#files.has(file.name)) return;
    const bytes = given ?? FileDescriptorProto.encode(file as never).finish();
    this.#files.set(file.name, { bytes, dependencies: file.dependency ?? [] });
    for (const symbol of symbolsOf(file)) {
      if (!this.#symbols.has(symbol)) this.#symbols.set(symbol, file.name);
    }
  }
}

function joined(scope: string | undefined, name: string): string {
  return scope === undefined || scope === '' ? name : `${scope}.${name}`;
}

function* symbolsOf(file: FileProto): Generator<string> {
  const scope = file.package;
  for (const message of file.messageType ?? []) yield* symbolsOfMessage(message, scope);
  for (const { name } of file.enumType ?? []) yield joined(scope, name);
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
}

interface DescribedRoot {
  toDescriptor(edition: string): { file: FileProto[] };
}

/** The files of a root of protobufjs, one for each package. */
function filesOfRoot(json: string): FileProto[] {
  const root = protobufjs.Root.fromJSON(JSON.parse(json));
  root.resolveAll();
  const edition = json.includes('"rule":"required"') ? 'proto2' : 'proto3';
  const set = (root as unknown as DescribedRoot).toDescriptor(edition);
  const fileOf = new Map<string, string>();
  for (const file of set.file) {
    for (const symbol of symbolsOf(file)) fileOf.set(symbol, file.name);
  }
  for (const file of set.file) new FileMender(root, file, fileOf).mend();
  return set.file;
}

/**
 * Completes what protobufjs leaves open: it writes names of types relative to their scope, entries
 * of maps under the name of their field, oneofs of optional fields before others, and no imports.
 */
class FileMender {
  readonly #root: protobufjs.Root;
  readonly #file: FileProto;
  readonly #fileOf: ReadonlyMap<string, string>;
  readonly #dependencies = new Set<string>();

  constructor(root: protobufjs.Root, file: FileProto, fileOf: ReadonlyMap<string, string>) {
    this.#root = root;
    this.#file = file;
    this.#fileOf = fileOf;
  }

  mend(): void {
    const scope = this.#file.package ?? '';
    for (const message of this.#file.messageType ?? []) this.#mendMessage(message, scope);
    for (const { method } of this.#file.service ?? []) {
      for (const each of method ?? []) {
        each.inputType = this.#absolute(each.inputType, scope);
        each.outputType = this.#absolute(each.outputType, scope);
      }
    }
    this.#file.dependency = [...this.#dependencies];
  }

  #mendMessage(message: MessageProto, outer: string): void {
    const scope = joined(outer, message.name);
    const entries = new Map<string, string>();
    for (const nested of message.nestedType ?? []) {
      if (nested.options?.mapEntry !== true) {
        this.#mendMessage(nested, scope);
        continue;
      }
      for (const field of nested.field ?? []) this.#mendField(field, scope);
      const field = message.field?.find(({ typeName }) => typeName === nested.name);
      const name = entryName(field?.name ?? nested.name);
      entries.set(nested.name, `.${scope}.${name}`);
      nested.name = name;
    }
    for (const field of message.field ?? []) {
      const entry = entries.get(field.typeName ?? '');
      if (entry === undefined) this.#mendField(field, scope);
      else field.typeName = entry;
    }
    orderOneofs(message);
  }

  #mendField(field: FieldProto, scope: string): void {
    if (field.typeName) field.typeName = this.#absolute(field.typeName, scope);
  }

  /** The full name of a type, with a dot before it; notes the import that it needs. */
  #absolute(name: string, scope: string): string {
    const full = name.startsWith('.') ? name : this.#lookUp(name, scope);
    const file = this.#fileOf.get(full.slice(1));
    if (file !== undefined && file !== this.#file.name) this.#dependencies.add(file);
    return full;
  }

  #lookUp(name: string, scope: string): string {
    const space = scope === '' ? this.#root : this.#root.lookup(scope);
    return (space as protobufjs.Namespace).lookupTypeOrEnum(name).fullName;
  }
}

/** `my_map` has the entries `MyMapEntry`. */
function entryName(field: string): string {
  const words = field.replace(/_([a-z0-9])/gi, (_, letter: string) => letter.toUpperCase());
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}Entry`;
}

/** The oneofs of optional fields stand behind all others, as the format demands. */
function orderOneofs(message: MessageProto): void {
  const { oneofDecl, field = [] } = message;
  if (oneofDecl === undefined) return;
  const indexOf = ({ oneofIndex }: FieldProto): number | undefined => oneofIndex ?? undefined;
  const isSynthetic = (_: NamedProto, at: number): boolean =>
    field.some((each) => indexOf(each) === at && each.proto3Optional === true);
  const ordered = [
    ...oneofDecl.filter((each, at) => !isSynthetic(each, at)),
    ...oneofDecl.filter(isSynthetic),
  ];
  for (const each of field) {
    const at = Object.hasOwn(each, 'oneofIndex') ? indexOf(each) : undefined;
    if (at !== undefined) each.oneofIndex = ordered.indexOf(oneofDecl[at] as NamedProto);
  }
  message.oneofDecl = ordered;
}
