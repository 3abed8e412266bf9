// The contracts of the host and the processes of its extensions. Both sides make calls.
import { notification, service, unary } from 'sidecall';

/** Served by runner.mjs: the process that extensions run in. */
export const Runner = service('Runner', {
  /**
   * { name, entry, state } → { commands: string[] }: loads an extension and calls its activate().
   */
  activate: unary(),
  /** { name, command, args, depth } → the result of the command. */
  run: unary(),
  /** Calls deactivate() of all extensions in the process. */
  deactivate: unary(),
});

/** Served by the host for extensions. `name` of every request is the extension that asks. */
export const Host = service('Host', {
  /** { name, text } */
  log: notification(),
  /** { name, id, title, done, total }; done === total ends it. */
  progress: notification(),
  /** { name, key } → the value that was stored, or undefined. */
  read: unary(),
  /** { name, key, value } */
  write: unary(),
  /**
   * { name, command, args, depth }: runs a command of another extension, which ends with its
   * caller.
   */
  execute: unary(),
});
