// A plugin of TypeDoc: modules have the names by which they are imported, from `exports` of the
// package.
import { readFileSync } from 'node:fs';
import { Converter, ReflectionKind } from 'typedoc';

const manifest = new URL('../package.json', import.meta.url);
const { name, exports } = JSON.parse(readFileSync(manifest, 'utf8'));
/** `adapters/grpc` → `sidecall/grpc`. */
const importNames = new Map(
  Object.entries(exports)
    .filter(([, { types }]) => types !== undefined)
    .map(([path, { types }]) => [
      types.replace(/^\.\/dist\/|\.d\.ts$/g, ''),
      path.replace('.', name),
    ]),
);

export function load({ converter }) {
  converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const module of project.getReflectionsByKind(ReflectionKind.Module)) {
      module.name = importNames.get(module.name) ?? module.name;
    }
  });
}
