// The contracts of the page, main and the helpers. In the page a bundler (or the import map of
// index.html) resolves 'sidecall' to the browser's build, which has contracts and errors only.
import { serverStream, service, unary } from 'sidecall';

/**
 * Served by helper.mjs, in a process of Node. Main chooses the folder and the file; a page cannot
 * change them.
 */
export const Library = service('Library', {
  /** → { event: 'added' | 'changed' | 'removed', name, bytes }, until the stream is cancelled. */
  watch: serverStream(),
  /** → { done, total } …, the last with `sha256`. */
  hash: serverStream(),
});

/** Served by probe.c, in a process that is not Node. */
export const Probe = service('Probe', {
  /** → { pid, language, uptimeSeconds, load } */
  read: unary(),
});

/** Served by main itself. */
export const Shell = service('Shell', {
  /** → { folder, file } that the helper reads. */
  places: unary(),
  /**
   * → { name, state, pid, restarts, origin, uid, lane, loop }, whenever one of the helpers changes.
   */
  helpers: serverStream(),
  /** { name }: kills a helper, to show its restart. */
  kill: unary(),
});
