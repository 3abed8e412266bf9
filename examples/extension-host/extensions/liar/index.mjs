// Writes garbage to the sockets of its process, and makes requests that break the host's rules.
import { fstatSync, writeSync } from 'node:fs';

export function activate({ commands, storage, log }) {
  commands.register('liar.garbage', () => {
    for (let fd = 3; fd < 64; fd += 1) {
      try {
        if (fstatSync(fd).isSocket()) writeSync(fd, Buffer.alloc(4_096, 0xff));
      } catch {
        // not open, or not writable
      }
    }
    return 'done';
  });
  commands.register('liar.greedy', async () => {
    await log('\u001b[2J\u001b[31mthe screen is mine');
    await storage.set('all', 'x'.repeat(100_000)).catch((error) => log(error.message));
    return commands.execute('liar.greedy');
  });
}
