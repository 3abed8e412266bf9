// A number of calls instead of a time.

/** Makes `requests` calls, `inFlight` at once. */
export async function countedLoad(call, inFlight, requests) {
  const latencies = new Float64Array(requests);
  let begun = 0;
  let errors = 0;
  const caller = async () => {
    while (begun < requests) {
      const at = begun;
      begun += 1;
      const then = performance.now();
      if (!(await call(at % 100 === 0))) errors += 1;
      latencies[at] = (performance.now() - then) * 1000;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  return { calls: requests, errors, latencies };
}
