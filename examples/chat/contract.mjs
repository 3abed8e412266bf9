import { bidi, service } from 'sidecall';

/** What each user sends is text; what comes is `{ from, text }`. */
export const Chat = service('Chat', { join: bidi() });
