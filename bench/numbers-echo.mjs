// The processes of `numbers.mjs`: one calls the other. A line of input, `CALLER HANDLER CALLS`,
// says whether the part is on in each (1 or 0), makes so many calls, and prints the nanoseconds of
// one.
import { createInterface } from 'node:readline';

const [folder, text] = process.argv.slice(2);
const { bytes, parent, service, spawnHelper, unary } = await import(`${folder}/dist/index.js`);
const { on } = await import(`${folder}/dist/switches.js`);
const Echo = service('Echo', {
  echo: unary({ request: bytes, response: bytes }),
  switch: unary(),
});

if (text === undefined) {
  const session = await parent();
  session.serve(Echo, {
    echo: (message) => message,
    switch: (value) => {
      // Not within a handler: its entry in the flight recorder is freed as it was made.
      setImmediate(() => {
        on[0] = value;
      });
    },
  });
} else {
  const { size, lane, inFlight, recorder } = JSON.parse(text);
  const options = { lane, recorder };
  const helper = await spawnHelper(new URL(import.meta.url), [folder], options);
  const client = helper.client(Echo);
  const message = new Uint8Array(size);
  const run = async (calls) => {
    const begun = process.hrtime.bigint();
    const lines = Array.from({ length: inFlight }, async () => {
      for (let at = 0; at < calls / inFlight; at += 1) await client.echo(message);
    });
    await Promise.all(lines);
    return Number(process.hrtime.bigint() - begun) / calls;
  };
  await run(Math.min(200_000, 2e9 / (2_000 + size)));
  for await (const line of createInterface({ input: process.stdin })) {
    const [caller, handler, calls] = line.split(' ').map(Number);
    await client.switch(handler);
    on[0] = caller;
    await run(calls / 10);
    console.log(await run(calls));
  }
  process.exit();
}
