// piscina: worker threads. Two tasks for each, as the other pools have.
import { Piscina } from 'piscina';

export async function open({ workers }) {
  const pool = new Piscina({
    filename: new URL('pool-work.mjs', import.meta.url).href,
    minThreads: workers,
    maxThreads: workers,
    concurrentTasksPerWorker: 2,
  });
  return { serverPids: [], work: (item) => pool.run(item), close: () => pool.destroy() };
}
