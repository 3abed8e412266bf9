import { bidi, service } from 'sidecall';

/** Requests are texts of one user; responses are `{ from, text }` of the others. */
export const Chat = service('Chat', { join: bidi() });
