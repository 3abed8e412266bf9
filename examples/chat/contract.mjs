import { bidi, service } from 'sidecall';

/** Each user sends text; `{ from, text }` comes. */
export const Chat = service('Chat', { join: bidi() });
