// The types of Electron itself fit those that the adapter describes.
import { type BrowserWindow, MessageChannelMain } from 'electron';
import { type Helper, type Session, serverStream, service, unary } from 'sidecall';
import { exposeToRenderer } from 'sidecall/electron';
import { connectMain } from 'sidecall/electron/renderer';

const Search = service('Search', {
  query: unary<{ text: string }, { hits: number }>(),
  list: serverStream<void, string>(),
});

export function expose(window: BrowserWindow, session: Session, helper: Helper): void {
  exposeToRenderer(window.webContents, session, {
    MessageChannelMain,
    allow: ['Search.query'],
    maxInFlight: 4,
  });
  using exposure = exposeToRenderer(window.webContents, helper, {
    MessageChannelMain,
    allow: [Search],
    origins: ['app://my'],
    name: 'search',
  });
  exposure.close();
}

export async function page(): Promise<number> {
  const search = (await connectMain()).client(Search);
  for await (const text of search.list()) text.toUpperCase();
  // @ts-expect-error: not what the contract says
  await search.query({ txt: 'x' });
  return (await search.query({ text: 'x' }, { timeoutMs: 100 })).hits;
}
