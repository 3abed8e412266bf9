// Long work with a progress bar, that can be cancelled.
import { setTimeout as sleep } from 'node:timers/promises';

const files = 200;

export function activate({ commands, withProgress }) {
  commands.register('indexer.build', () =>
    withProgress('indexing', async (report, signal) => {
      for (let done = 0; done <= files; done += 1) {
        signal.throwIfAborted();
        await report(done, files);
        await sleep(25);
      }
      return files;
    }),
  );
}
