// A page, with the types of the DOM, strictly and without skipLibCheck.
import { serverStream, service, unary } from 'sidecall';
import { connectMain, type MainConnection, type PageStream } from 'sidecall/electron/renderer';

const Search = service('Search', {
  query: unary<{ text: string }, { hits: number }>(),
  list: serverStream<void, string>(),
});

export async function query(text: string): Promise<number> {
  const main: MainConnection = await connectMain({ name: 'search' });
  const search = main.client(Search, { timeoutMs: 5_000 });
  const lines: PageStream<string> = search.list();
  for await (const line of lines) document.body.append(line);
  return (await search.query({ text })).hits;
}
