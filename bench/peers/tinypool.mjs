// tinypool, with threads or with processes.
import { Tinypool } from 'tinypool';

export function opener(runtime) {
  return async ({ workers }) => {
    const pool = new Tinypool({
      filename: new URL('pool-work.mjs', import.meta.url).href,
      runtime,
      minThreads: workers,
      maxThreads: workers,
      concurrentTasksPerWorker: 2,
    });
    const work = (item) => pool.run(item);
    await Promise.all(Array.from({ length: 2 * workers }, () => work({ rounds: 1, text: '' })));
    const pids = runtime === 'child_process' ? pool.threads.map((thread) => processOf(thread)) : [];
    return {
      serverPids: pids.filter((pid) => pid !== undefined),
      work,
      close: () => pool.destroy(),
    };
  };
}

/** The process of a worker; the package names it in a private field. */
function processOf(worker) {
  return worker?.process?.pid ?? worker?.port?.process?.pid;
}
