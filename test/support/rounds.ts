// The size of tests that only repeat: `SIDECALL_LONG=1` asks for the long one (`.ci/long`).
const isLong = process.env.SIDECALL_LONG === '1';

/** How often something is done: `long` in the long run, `short` in `npm test`. */
export function rounds(long: number, short: number): number {
  return isLong ? long : short;
}
