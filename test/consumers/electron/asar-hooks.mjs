// Hooks of Node that read modules from inside an archive, as the `fs` of Electron does.
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const { extractFile } = createRequire(import.meta.url)('@electron/asar');
const isInside = (url) => url?.includes('.asar/') === true;

/** The text of a file of an archive: of the unpacked files, too. */
function read(url) {
  const [archive, inside] = fileURLToPath(url).split('.asar/');
  return extractFile(`${archive}.asar`, inside);
}

export async function resolve(specifier, context, next) {
  if (!isInside(specifier) && !isInside(context.parentURL)) return next(specifier, context);
  if (/^(file:|\.)/.test(specifier)) {
    return { url: new URL(specifier, context.parentURL).href, shortCircuit: true };
  }
  if (!specifier.startsWith('sidecall')) return next(specifier, context);
  const [app] = context.parentURL.split(/(?<=\.asar\/)/);
  const home = new URL('node_modules/sidecall/', app);
  const { exports } = JSON.parse(read(new URL('package.json', home)));
  const { default: target } = exports[specifier.replace(/^sidecall/, '.')];
  return { url: new URL(target, home).href, shortCircuit: true };
}

export async function load(url, context, next) {
  if (!isInside(url)) return next(url, context);
  return { format: 'module', source: read(url), shortCircuit: true };
}
