// SPDX-License-Identifier: MIT
// The `.proto` files that a root of protobufjs stands for, as descriptors. A root does not keep its
// files: types of one package and one syntax make up a file, or several where they import others
// that import them.
import { Buffer } from 'node:buffer';
import protobufjs from 'protobufjs';
import 'protobufjs/ext/descriptor/index.js'; // gives the objects of a root their toDescriptor()
import { nodeError } from '../base/misuse.ts';

/** The members of a descriptor that are read or written here. */
export interface FileProto {
  name: string;
  package?: string;
  dependency?: string[];
  messageType?: MessageProto[];
  enumType?: NamedProto[];
  extension?: FieldProto[];
  service?: ServiceProto[];
  syntax?: string;
  edition?: number;
}
interface NamedProto {
  name: string;
}
interface ServiceProto extends NamedProto {
  method?: { name: string; inputType: string; outputType: string }[];
}
export interface MessageProto extends NamedProto {
  field?: FieldProto[];
  extension?: FieldProto[];
  nestedType?: (MessageProto & { options?: { mapEntry?: boolean } })[];
  enumType?: NamedProto[];
  oneofDecl?: NamedProto[];
}
export interface FieldProto extends NamedProto {
  number: number;
  label?: number;
  type?: number;
  typeName?: string;
  extendee?: string;
  oneofIndex?: number | null;
  defaultValue?: string;
  jsonName?: string;
  proto3Optional?: boolean;
}

/** Members that its declarations do not name, or that older versions do not have. */
interface Described {
  readonly _edition?: string | null;
  readonly protoName?: string;
  readonly jsonName?: string;
  toDescriptor(edition: string): never;
}

/** A root as `toJSON()` gives it: what tells syntaxes apart. */
interface RootJson {
  edition?: string;
  readonly nested?: Readonly<Record<string, RootJson>>;
  readonly fields?: Readonly<Record<string, RootJson>>;
  readonly values?: Readonly<Record<string, number>>;
  readonly methods?: object;
  readonly id?: number;
  readonly rule?: string;
  readonly extend?: string;
  readonly group?: boolean;
  readonly extensions?: unknown;
  readonly options?: { readonly default?: unknown; readonly proto3_optional?: unknown };
}

/** A type, service or extension of a package, and the others that it names. */
interface Item {
  readonly object: protobufjs.ReflectionObject;
  readonly package: string;
  readonly edition: string;
  proto: NamedProto;
  readonly uses: Set<Item>;
}

const messageType = 11;
const groupType = 10;
const editions: Readonly<Record<string, number>> = { '2023': 1_000, '2024': 1_001, '2026': 1_002 };

/**
 * The files of a root, those that are imported before those that import them.
 * @param text the root as JSON.
 * @param isTaken whether another root has a file of this name.
 * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where the root does not tell its syntax, which
 * decides whether a field that was not sent is absent or zero: it names the types.
 */
export function filesOfRoot(text: string, isTaken: (name: string) => boolean): FileProto[] {
  const json = JSON.parse(text) as RootJson;
  markSyntax(json, '');
  const root = protobufjs.Root.fromJSON(json as protobufjs.INamespace);
  root.resolveAll();
  const items = [...itemsOf(root)];
  const itemOf = new Map(items.map((item) => [item.object, item]));
  for (const item of items) describe(item, itemOf);
  const names = new Set<string>();
  const fileOf = new Map<Item, FileProto>();
  return groupsOf(items).map((group) => {
    const [{ package: scope }] = group as [Item];
    const base = scope === '' ? 'root' : scope.replaceAll('.', '_');
    let name = `${base}.proto`;
    for (let count = 2; names.has(name) || isTaken(name); count += 1)
      name = `${base}_${count}.proto`;
    names.add(name);
    const file = fileWith(group, name, fileOf);
    for (const item of group) fileOf.set(item, file);
    return file;
  });
}

/**
 * Names the syntax of the types of a package where their root does not, as before protobufjs 7.5:
 * it is proto2 where one of them has what proto3 does not have.
 */
function markSyntax(space: RootJson, scope: string): void {
  const entries = Object.entries(space.nested ?? {});
  const isSpace = (json: RootJson): boolean =>
    (json.fields ?? json.values ?? json.methods ?? json.id) === undefined;
  const unmarked = entries.filter(([, json]) => !isSpace(json) && json.edition === undefined);
  const [second] = unmarked.find(([, json]) => has(json, isOfProto2)) ?? [];
  if (second !== undefined) {
    const [third] = unmarked.find(([, json]) => has(json, isOfProto3)) ?? [];
    if (third !== undefined) {
      const text = `the descriptor does not tell the syntax of its types: ${joined(scope, second)} is of proto2, ${joined(scope, third)} of proto3; make it with protobufjs 7.5 or later`;
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
    for (const [, json] of unmarked) json.edition = 'proto2';
  }
  for (const [name, json] of entries) if (isSpace(json)) markSyntax(json, joined(scope, name));
}

function has(json: RootJson, isOf: (json: RootJson) => boolean): boolean {
  const members = [...Object.values(json.fields ?? {}), ...Object.values(json.nested ?? {})];
  return isOf(json) || members.some((member) => has(member, isOf));
}

function isOfProto2({ rule, group, options, extend, extensions, values }: RootJson): boolean {
  const isExtension = extend !== undefined && !/^\.?google\.protobuf\.\w+Options$/.test(extend);
  const isOpen = values === undefined || (Object.values(values)[0] ?? 0) === 0;
  const isOlder = rule === 'required' || group === true || options?.default !== undefined;
  return isOlder || isExtension || extensions !== undefined || !isOpen;
}

function isOfProto3({ options }: RootJson): boolean {
  return options?.proto3_optional === true;
}

function* itemsOf(space: protobufjs.NamespaceBase): Generator<Item> {
  for (const object of space.nestedArray) {
    const { _edition: edition } = object as unknown as Described;
    const isItem = isOneOf(object, [protobufjs.Type, protobufjs.Enum, protobufjs.Service]);
    if (isItem || isExtension(object)) {
      const scope = space.fullName.replace(/^\./, '');
      const proto = { name: object.name };
      yield { object, package: scope, edition: edition ?? 'proto3', proto, uses: new Set() };
    } else if (object instanceof protobufjs.Namespace) yield* itemsOf(object);
  }
}

function isOneOf(object: object, kinds: readonly (new (...args: never[]) => object)[]): boolean {
  return kinds.some((kind) => object instanceof kind);
}

/** An extension of a type of the root: options that are the file's own often extend others. */
function isExtension(object: object): object is protobufjs.Field {
  return object instanceof protobufjs.Field && object.extensionField !== null;
}

/** Makes the descriptor of an item, and notes what it names. */
function describe(item: Item, itemOf: ReadonlyMap<object, Item>): void {
  const { object, edition } = item;
  const use = (type: protobufjs.ReflectionObject): string => {
    let space: protobufjs.ReflectionObject | null = type;
    while (space !== null && !itemOf.has(space)) space = space.parent;
    const used = space && itemOf.get(space);
    if (used && used !== item) item.uses.add(used);
    return type.fullName;
  };
  if (object instanceof protobufjs.Type) item.proto = messageOf(object, edition, use);
  else if (object instanceof protobufjs.Field) item.proto = fieldOf(object, edition, use);
  else item.proto = (object as unknown as Described).toDescriptor(edition);
  if (!(object instanceof protobufjs.Service)) return;
  for (const { resolvedRequestType, resolvedResponseType } of object.methodsArray) {
    for (const type of [resolvedRequestType, resolvedResponseType]) if (type !== null) use(type);
  }
}

type Use = (type: protobufjs.ReflectionObject) => string;

/**
 * The descriptor of a message. That of protobufjs names types relative to their scope and entries
 * of maps by their field, and has the extensions inside the message among its fields.
 */
function messageOf(type: protobufjs.Type, edition: string, use: Use): MessageProto {
  const message = (type as unknown as Described).toDescriptor(edition) as MessageProto;
  const entries = (message.nestedType ?? []).filter(({ options }) => options?.mapEntry === true);
  const entryOf = entries.values(); // in the order of the fields
  // The oneofs of optional fields stand behind all others, as the format demands.
  const isSynthetic = ({ fieldsArray: [field] }: protobufjs.OneOf): boolean =>
    field?.options?.proto3_optional === true;
  const oneofs = type.oneofsArray.toSorted(
    (a, b) => Number(isSynthetic(a)) - Number(isSynthetic(b)),
  );
  const isOwn = (field: protobufjs.Field): boolean => field.declaringField === null;
  message.field = type.fieldsArray.filter(isOwn).map((field) => {
    const proto = fieldOf(field, edition, use);
    if (field.partOf !== null) proto.oneofIndex = oneofs.indexOf(field.partOf);
    if (!(field instanceof protobufjs.MapField)) return proto;
    const entry = entryOf.next().value as MessageProto;
    entry.name = entryName(proto.name);
    proto.typeName = `${type.fullName}.${entry.name}`;
    const [, value] = entry.field as [FieldProto, FieldProto];
    if (field.resolvedType !== null) value.typeName = use(field.resolvedType);
    return proto;
  });
  const nested = type.nestedArray.filter((object) => object instanceof protobufjs.Type);
  message.nestedType = [...entries, ...nested.map((each) => messageOf(each, edition, use))];
  message.extension = type.nestedArray
    .filter(isExtension)
    .map((extension) => fieldOf(extension, edition, use));
  message.oneofDecl = oneofs.map((oneof) => (oneof as unknown as Described).toDescriptor(edition));
  return message;
}

function fieldOf(field: protobufjs.Field, edition: string, use: Use): FieldProto {
  const described = field as unknown as Described;
  const proto = described.toDescriptor(edition) as FieldProto;
  const { resolvedType } = field;
  if (resolvedType !== null && !field.map) proto.typeName = use(resolvedType);
  if (proto.type === groupType) {
    if (edition in editions) proto.type = messageType;
    else proto.name = (resolvedType as protobufjs.Type).name.toLowerCase();
  }
  const extended = field.extensionField?.parent;
  if (extended) proto.extendee = use(extended);
  if (described.jsonName !== undefined && !extended) proto.jsonName = described.jsonName;
  if (extended) delete proto.jsonName; // JSON has its full name in brackets
  if (Object.hasOwn(proto, 'defaultValue')) {
    proto.defaultValue = defaultText(proto.defaultValue as string, field);
  }
  return proto;
}

/** A default as descriptors have it. */
function defaultText(text: string, { type, options }: protobufjs.Field): string {
  if (type === 'float' || type === 'double') {
    return text.replace(/^(-?)Infinity$/, '$1inf').replace(/^NaN$/, 'nan');
  }
  if (type.endsWith('64') && typeof options?.default === 'number') {
    // A number that has lost its last digits does not leave the range of its type.
    const exact = BigInt(options.default);
    const [least, most] = /^(u|f)/.test(type)
      ? [0n, 2n ** 64n - 1n]
      : [-(2n ** 63n), 2n ** 63n - 1n];
    return String(exact < least ? least : exact > most ? most : exact);
  }
  if (type !== 'bytes') return text;
  // Bytes that the file has as escapes are characters of the same codes here.
  const bytesOf = (char: string): Buffer => Buffer.from(char, char > '\u00ff' ? 'utf8' : 'latin1');
  const octal = (byte: number): string => `\\${byte.toString(8).padStart(3, '0')}`;
  return text.replace(/[^ -~]|["'\\]/gu, (char) => [...bytesOf(char)].map(octal).join(''));
}

/** `my_map` has the entries `MyMapEntry`. */
function entryName(field: string): string {
  const words = field.replace(/_+(.?)/g, (_, letter: string) => letter.toUpperCase());
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}Entry`;
}

/** Items of a package and a syntax are a file, unless it would import what imports it. */
function groupsOf(items: readonly Item[]): Item[][] {
  const groups = new Map<string, Item[]>();
  const groupOf = ({ package: scope, edition }: Item): Item[] => {
    const key = `${edition} ${scope}`;
    const group = groups.get(key) ?? [];
    groups.set(key, group);
    return group;
  };
  for (const item of items) groupOf(item).push(item);
  const usedBy = (group: Item[]): Item[][] =>
    group.flatMap(({ uses }) => [...uses].map((item) => groupOf(item)));
  return components([...groups.values()], usedBy).flatMap((cycle) => {
    if (cycle.length === 1) return cycle;
    const members = new Set(cycle.flat());
    const usedByMember = ({ uses }: Item): Item[] => [...uses].filter((item) => members.has(item));
    const parts = components([...members], usedByMember);
    for (const part of parts) {
      const [first] = part as [Item];
      const other = part.find((item) => groupOf(item) !== groupOf(first));
      if (other === undefined) continue;
      const text = `${first.object.fullName} and ${other.object.fullName} need each other, and cannot be of one .proto file: their packages or syntaxes differ`;
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
    return parts;
  });
}

/**
 * Strongly connected components of a graph, each behind those that it uses: Tarjan's algorithm.
 */
function components<T>(nodes: readonly T[], usedBy: (node: T) => readonly T[]): T[][] {
  const found: T[][] = [];
  const open: T[] = [];
  const lowest = new Map<T, number>();
  const visit = (node: T): number => {
    const index = lowest.size;
    lowest.set(node, index);
    open.push(node);
    let low = index;
    for (const used of usedBy(node)) low = Math.min(low, lowest.get(used) ?? visit(used));
    lowest.set(node, low);
    if (low < index) return low;
    const component = open.splice(open.lastIndexOf(node));
    for (const each of component) lowest.set(each, Number.POSITIVE_INFINITY); // it is complete
    found.push(component);
    return low;
  };
  for (const node of nodes) if (!lowest.has(node)) visit(node);
  return found;
}

function fileWith(group: readonly Item[], name: string, fileOf: ReadonlyMap<Item, FileProto>) {
  const [{ package: scope, edition }] = group as [Item];
  const uses = group.flatMap((item) => [...item.uses]);
  const dependency = uses
    .map((item) => fileOf.get(item)?.name)
    .filter((each) => each !== undefined);
  const protosOf = (kind: new (...args: never[]) => object): never[] =>
    group.filter(({ object }) => object instanceof kind).map(({ proto }) => proto as never);
  return {
    name,
    package: scope,
    dependency: [...new Set(dependency)],
    messageType: protosOf(protobufjs.Type),
    enumType: protosOf(protobufjs.Enum),
    extension: protosOf(protobufjs.Field),
    service: protosOf(protobufjs.Service),
    ...(edition === 'proto3' && { syntax: edition }),
    ...(edition in editions && { syntax: 'editions', edition: editions[edition] }),
  };
}

/** A name in its scope. */
export function joined(scope: string | undefined, name: string): string {
  return scope === undefined || scope === '' ? name : `${scope}.${name}`;
}
