// The contracts of the page, main and the helpers. In the page a bundler (or the import map
// of index.html) gives the browser's build of 'sidecall', which has just these functions.
import { serverStream, service, unary } from 'sidecall';

/**
 * Served by helper.mjs, in a process of Node. Main says which folder and which file; a page has no
 * say in it.
 */
export const Library = service('Library', {
  /** → { event: 'added' | 'changed' | 'removed', name, bytes }, as long as somebody listens. */
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
  /** → { folder, file }: what is looked at. */
  places: unary(),
  /**
   * → { name, state, pid, restarts, origin, uid, lane, loop }, whenever one of the helpers changes.
   */
  helpers: serverStream(),
  /** { name }: kills a helper, to see it come back. */
  kill: unary(),
});
