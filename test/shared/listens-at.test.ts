// The process of a path, by the tables of the kernel.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { listensAt } from '../../src/shared/listens-at.ts';
import { scratchDirectory } from '../support/programs.ts';

it('a process listens at a path while it has the socket, and no other process does', async () => {
  using directory = scratchDirectory();
  const path = directory.file('a socket');
  expect(listensAt(path, process.pid)).toBe(false);
  const server = createServer().listen(path);
  await once(server, 'listening');
  expect(listensAt(path, process.pid)).toBe(true);
  expect(listensAt(path, process.ppid)).toBe(false);
  expect(listensAt(directory.file('another socket'), process.pid)).toBe(false);
  expect(listensAt(path, 4_194_304)).toBe(false); // above all pids
  server.close();
  await once(server, 'close');
  expect(listensAt(path, process.pid)).toBe(false);
});
