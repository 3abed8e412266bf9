import { parent, RpcError } from 'sidecall';
import { QuoteOfTheDay } from './contract.mjs';

const quotes = {
  Saturday: { text: 'Simplicity is prerequisite for reliability.', author: 'E. W. Dijkstra' },
  Sunday: { text: 'Premature optimization is the root of all evil.', author: 'D. E. Knuth' },
};

const session = await parent();
session.serve(QuoteOfTheDay, {
  get: ({ name }) => {
    const quote = quotes[name];
    if (quote === undefined) throw new RpcError('not_found', `no quote for '${name}'`);
    return quote;
  },
});
