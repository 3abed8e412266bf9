// The links of the built site are followed: a dead one fails the build.
import { mkdirSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { scratchDirectory } from '../support/programs.ts';

// By its address, since scripts have no types.
const crawler = new URL('../../scripts/crawl-site.mjs', import.meta.url).href;
const { deadLinks } = (await import(crawler)) as { deadLinks: (folder: string) => string[] };

describe('the crawl of the site', () => {
  it('follows links to pages, files and anchors', () => {
    using folder = scratchDirectory();
    mkdirSync(folder.file('guide'));
    const index = `
      <a class="x" href="./guide/">guides</a> <a href="/guide/calls.html#deadlines">calls</a>
      <a href="/guide/calls">without its ending</a> <img src="/chart.svg" alt="">
      <a href="https://elsewhere/">out</a> <a href="#top">here</a> <b id="top"></b>`;
    writeFileSync(folder.file('index.html'), index);
    writeFileSync(folder.file('chart.svg'), '');
    writeFileSync(folder.file('guide/index.html'), '<a href="../">home</a>');
    writeFileSync(folder.file('guide/calls.html'), '<h2 id="deadlines"></h2>');
    expect(deadLinks(folder.path)).toEqual([]);
  });

  it('finds a page, a file and an anchor that are not there', () => {
    using folder = scratchDirectory();
    const index = '<a href="/gone.html">a</a><a href="#gone">b</a><img alt="" src="gone.png">';
    writeFileSync(folder.file('index.html'), index);
    expect(deadLinks(folder.path)).toEqual([
      'index.html: /gone.html: there is no such page or file',
      'index.html: #gone: the page has no such anchor',
      'index.html: gone.png: there is no such page or file',
    ]);
  });
});
