// The links of the built site: each page, file and anchor that a page names must be in it.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, posix } from 'node:path';

/** The dead links below `folder`, as sentences. Links out of the site are not followed. */
export function deadLinks(folder) {
  const pages = readdirSync(folder, { recursive: true })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.html'));
  const texts = new Map(pages.map((path) => [path, readFileSync(join(folder, path), 'utf8')]));
  const dead = [];
  for (const [page, text] of texts) {
    for (const [, raw] of text.matchAll(
      /<(?:a|link|img|script)\b[^>]*?\s(?:href|src)="([^"]*)"/g,
    )) {
      const link = raw.replaceAll('&amp;', '&');
      if (/^[a-z]+:|^\/\//i.test(link)) continue;
      const why = faultOf(folder, texts, page, link);
      if (why !== undefined) dead.push(`${page}: ${link}: ${why}`);
    }
  }
  return [...new Set(dead)];
}

/** undefined: the link leads somewhere. */
function faultOf(folder, texts, page, link) {
  const { pathname, hash } = new URL(link, `http://site/${page}`);
  const path = fileOf(folder, decodeURIComponent(pathname));
  if (path === undefined) return 'there is no such page or file';
  if (hash === '' || !path.endsWith('.html')) return undefined;
  const id = decodeURIComponent(hash.slice(1));
  const isThere = texts.get(path).includes(` id="${id}"`);
  return isThere ? undefined : 'the page has no such anchor';
}

/** The file that a web server gives for a path. */
function fileOf(folder, path) {
  const plain = posix.normalize(path).replace(/^\//, '');
  const tries =
    plain.endsWith('/') || plain === '' ? [`${plain}index.html`] : [plain, `${plain}.html`];
  return tries.find(
    (each) => existsSync(join(folder, each)) && statSync(join(folder, each)).isFile(),
  );
}
