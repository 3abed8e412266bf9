// Computes without ever returning to its event loop.
export function activate({ commands }) {
  commands.register('busy.compute', (args) => {
    const until = performance.now() + (args?.ms ?? 60_000);
    let rounds = 0;
    while (performance.now() < until) rounds += 1;
    return rounds;
  });
}
