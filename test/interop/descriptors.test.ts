// Descriptors of roots of protobufjs, compared with those that protoc makes of the same files, and
// used by grpcurl.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import protobufjs from 'protobufjs';
import descriptorModule from 'protobufjs/ext/descriptor/index.js';
import { describe, expect, it } from 'vitest';
import { listenGrpc } from '../../src/adapters/grpc/main.ts';
import { protobufService } from '../../src/adapters/protobuf.ts';
import { filesOfRoot } from '../../src/adapters/root-files.ts';
import { implement } from '../../src/rpc/serving/implementation.ts';
import { goProgram, run } from '../support/go.ts';
import { scratchDirectory } from '../support/programs.ts';

const { FileDescriptorSet } = descriptorModule as unknown as {
  readonly FileDescriptorSet: protobufjs.Type;
};
const python = fileURLToPath(new URL('../../build/protoc', import.meta.url));
const standard = join(python, 'grpc_tools', '_proto');
const goModule = fileURLToPath(new URL('../go', import.meta.url));

type ScratchDirectory = ReturnType<typeof scratchDirectory>;

/** protoc for many files: a process for each would take most of the time. */
const protoc = `
import sys
from grpc_tools import protoc
for line in sys.stdin:
    arguments = line.strip().split("\\t")
    if protoc.main(["protoc", "--include_imports", *arguments]) != 0:
        sys.exit(line)
`;

function compile(calls: readonly (readonly string[])[]): void {
  const input = calls.map((args) => args.join('\t')).join('\n');
  const env = { ...process.env, PYTHONPATH: python };
  execFileSync('python3', ['-c', protoc], { input, env, stdio: ['pipe', 'inherit', 'inherit'] });
}

function load(files: readonly string[], places: readonly string[], keepCase: boolean) {
  const root = new protobufjs.Root();
  root.resolvePath = (_, target) =>
    places.map((place) => join(place, target)).find((path) => existsSync(path)) ?? target;
  root.loadSync([...files], { keepCase });
  return root;
}

function setOf(root: protobufjs.Root): Uint8Array {
  const finite = (_: string, value: unknown) =>
    typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
  const file = filesOfRoot(JSON.stringify(root.toJSON(), finite), () => false);
  return FileDescriptorSet.encode({ file } as never).finish();
}

/** The differences of our descriptors of a root from those of protoc, in lines. */
async function differences(scratch: ScratchDirectory, root: protobufjs.Root, expected: string) {
  const got = scratch.file('got');
  writeFileSync(got, setOf(root));

  const { stdout, stderr } = await run(goProgram('descriptors'), [got, expected]);
  return `${stdout}${stderr}`.trim().split('\n').filter(Boolean);
}

function protosIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter(({ name }) => name.endsWith('.proto'))
    .map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1))
    .filter((file) => !file.startsWith('src/'));
}

/** Files that the descriptors of Go refuse, and imports for a compiler, which a root has not. */
const excluded =
  /messageset|message_set_wire_format|import option|extensions\/ext\/|lazy_extension_test|textpbeditions/;

describe.each(['google.golang.org/protobuf', 'google.golang.org/grpc'])(
  'the files of %s',
  (name) => {
    it.each([false, true])(
      'have the descriptors that protoc makes (keepCase: %s)',
      async (keepCase) => {
        using scratch = scratchDirectory();
        const listed = ['list', '-m', '-f', '{{.Dir}}', name];
        const folder = execFileSync('go', listed, { cwd: goModule, encoding: 'utf8' }).trim();
        const places = [folder, join(folder, 'src'), standard].filter((place) => existsSync(place));
        const roots = new Map<string, protobufjs.Root>();
        for (const file of protosIn(folder)) {
          if (excluded.test(file) || excluded.test(readFileSync(join(folder, file), 'utf8')))
            continue;
          try {
            roots.set(file, load([file], places, keepCase));
          } catch (error) {
            // protobufjs does not load a group inside a oneof.
            expect((error as Error).message).toBe('field must be a Field');
          }
        }
        expect(roots.size).toBeGreaterThan(name.endsWith('grpc') ? 8 : 100);
        const paths = places.map((place) => `-I${place}`);
        const outOf = (file: string): string => scratch.file(file.replaceAll('/', '_'));
        compile([...roots.keys()].map((file) => [...paths, `-o${outOf(file)}`, file]));
        for (const [file, root] of roots) {
          expect(await differences(scratch, root, outOf(file)), file).toEqual([]);
        }
      },
    );
  },
);

/** Files of one root that are of each syntax, and import each other's packages. */
const mixed = {
  'old/base.proto': `syntax = "proto2";
    package old;
    import "recent/point.proto";
    message Old {
      required int32 a = 1;
      optional int32 b = 2 [default = 7];
      optional string text = 3 [default = "it's \\"quoted\\"\\n"];
      optional bytes raw = 4 [default = "\\001\\377"];
      optional double least = 5 [default = -inf];
      optional Level level = 6 [default = HIGH];
      repeated int32 packed = 7 [packed = true];
      repeated int32 unpacked = 8;
      optional group Part = 9 { optional int32 n = 1; }
      optional recent.Point point = 10;
      map<string, Old> olds = 11;
      oneof choice { string one = 12; bool other = 13; }
      optional int64 least_long = 14 [default = -9223372036854775808];
      optional sint64 most_long = 15 [default = 9223372036854775807];
      optional uint64 most_unsigned = 16 [default = 18446744073709551615];
      optional fixed64 usual_long = 17 [default = 9007199254740991];
      extensions 100 to 199;
      extend Old { optional int32 nested_extension = 101; }
      enum Level { LOW = 1; HIGH = 2; }
      reserved 50 to 60, 70;
      reserved "gone";
    }
    extend Old { optional recent.Point extension_of_file = 100; }`,
  'old/same_package.proto': `syntax = "proto3";
    package old;
    message New { optional int32 present = 1; int32 implicit = 2; repeated int32 packed = 3; }`,
  'recent/point.proto': `syntax = "proto3";
    package recent;
    message Point {
      int32 x = 1;
      optional int32 y = 2;
      repeated sint64 packed = 3;
      repeated int32 unpacked = 4 [packed = false];
      string odd_name = 5 [json_name = "odd_name"];
      string other_name = 6 [json_name = "Other"];
    }`,
  'recent/shapes.proto': `syntax = "proto3";
    package recent;
    import "old/base.proto";
    import "edition/ed.proto";
    import "recent/point.proto";
    import "google/protobuf/timestamp.proto";
    message Shape { old.Old old = 1; edition.Ed ed = 2; google.protobuf.Timestamp at = 3; }
    service Shapes {
      rpc Get(Shape) returns (Shape);
      rpc GetOld(old.Old) returns (old.Old);
      rpc GetEd(edition.Ed) returns (edition.Ed);
      rpc Watch(stream Point) returns (stream Point);
    }`,
  'edition/ed.proto': `edition = "2023";
    package edition;
    import "recent/point.proto";
    option features.field_presence = IMPLICIT;
    message Ed {
      int32 implicit = 1;
      int32 present = 2 [features.field_presence = EXPLICIT];
      int32 needed = 3 [features.field_presence = LEGACY_REQUIRED];
      recent.Point delimited = 4 [features.message_encoding = DELIMITED];
      repeated int32 expanded = 5 [features.repeated_field_encoding = EXPANDED];
      string any_bytes = 6 [features.utf8_validation = NONE];
      Closed closed = 7 [features.field_presence = EXPLICIT];
      map<int32, Open> by_id = 8;
    }
    enum Closed { option features.enum_type = CLOSED; ONE = 1; TWO = 2; }
    enum Open { ZERO = 0; FIRST = 1; }`,
};

function mixedIn(scratch: ScratchDirectory): string[] {
  for (const [file, text] of Object.entries(mixed)) {
    mkdirSync(dirname(scratch.file(file)), { recursive: true });
    writeFileSync(scratch.file(file), text);
  }
  return Object.keys(mixed);
}

describe('a root of files of each syntax', () => {
  it.each([false, true])(
    'has the descriptors that protoc makes (keepCase: %s)',
    async (keepCase) => {
      using scratch = scratchDirectory();
      const files = mixedIn(scratch);
      const places = [scratch.path, standard];
      const expected = scratch.file('expected');
      compile([[...places.map((place) => `-I${place}`), `-o${expected}`, ...files]]);
      expect(await differences(scratch, load(files, places, keepCase), expected)).toEqual([]);
    },
  );

  it('takes from grpcurl what its fields say, and gives it back', async () => {
    using scratch = scratchDirectory();
    const root = load(mixedIn(scratch), [scratch.path, standard], false);
    const Shapes = protobufService(root.lookupService('recent.Shapes'));
    const got: object[] = [];
    const echo = (value: object): object => {
      got.push(value);
      return value;
    };
    const handlers = {
      get: (v: object) => {
        console.log('GET', v);
        return echo(v);
      },
      getOld: echo,
      getEd: echo,
      watch: (values: unknown) => values,
    };
    await using listener = await listenGrpc({
      onEvent: (e) => console.log(e),
      services: [implement(Shapes, handlers as never)],
    });
    const call = async (method: string, value: object) => {
      const args = ['-plaintext', '-d', JSON.stringify(value), `unix:${listener.path}`, method];
      const { stdout, stderr } = await run(goProgram('grpcurl'), args);
      expect(stderr).toBe('');
      return JSON.parse(stdout) as object;
    };
    const old = { a: 0, part: { n: 3 }, raw: '/w==', unpacked: [1, 2], level: 'LOW' };
    expect(await call('recent.Shapes/GetOld', old)).toEqual(old);
    expect(Object.hasOwn(got[0] as object, 'a')).toBe(true);
    const point = { y: 0, odd_name: 'o', Other: 'p' };
    const extended = { ...old, '[old.extension_of_file]': point, '[old.Old.nested_extension]': 0 };
    expect(await call('recent.Shapes/GetOld', extended)).toEqual(extended);
    // grpcurl writes a delimited field with a length, also with descriptors of protoc.
    const ed = { present: 0, needed: 0, closed: 'TWO', byId: { 1: 'FIRST' } };
    expect(await call('recent.Shapes/GetEd', ed)).toEqual(ed);
    const shape = { old, ed, at: '2026-01-02T03:04:05Z' };
    expect(await call('recent.Shapes/Get', shape)).toEqual(shape);
    expect(await call('recent.Shapes/Watch', point)).toEqual(point);
    const described = await run(goProgram('grpcurl'), [
      ...['-plaintext', `unix:${listener.path}`, 'describe', 'old.Old'],
    ]);
    expect(described.stdout).toContain('required int32 a = 1;');
  });
});
