// The goals that one result can decide, as ratios of its rows.
import { cpuPerCall } from './report.mjs';
import { flows } from './scenarios/stream.mjs';

const nodePeers = ['child_process-advanced', 'vscode-jsonrpc', 'grpc-js', 'zeromq'];
const fairnessPeers = ['child_process-advanced', 'zeromq', 'grpc-js', 'vscode-jsonrpc', 'net'];
const goPeers = ['golib-uds', 'grpc-go-uds'];

/** The cells that the goals are judged by: scenarios, and the options of each. */
export const goalRuns = [
  {
    scenario: 'echo',
    peers: ['sidecall'],
    sizes: [64],
    depths: [1],
    codecs: ['json'],
  },
  { scenario: 'echo', peers: ['net', 'c-uds'], sizes: [64], depths: [1], codecs: ['bytes'] },
  {
    scenario: 'echo',
    peers: ['sidecall', ...nodePeers, ...goPeers],
    sizes: [1024],
    depths: [16],
    codecs: ['bytes'],
  },
  {
    scenario: 'echo',
    peers: ['sidecall', 'zeromq', ...goPeers],
    sizes: [10_240, 102_400, 1_024_000],
    depths: [16],
    codecs: ['bytes'],
  },
  {
    scenario: 'echo',
    peers: ['sidecall'],
    sizes: [10_240, 102_400, 1_024_000],
    depths: [16],
    codecs: ['borrowed'],
    seconds: 2,
  },
  {
    scenario: 'echo',
    peers: ['shmipc-go'],
    sizes: [102_400, 1_024_000],
    depths: [16],
    codecs: ['bytes'],
    seconds: 2,
  },
  {
    scenario: 'echo',
    peers: ['c-ring'],
    sizes: [10_240, 102_400, 1_024_000],
    depths: [1],
    codecs: ['bytes'],
  },
  { scenario: 'wake', peers: ['sidecall', 'net'] },
  { scenario: 'unary-json' },
  { scenario: 'unary-protobuf' },
  { scenario: 'lease' },
  { scenario: 'stream' },
  { scenario: 'allocs', peers: ['sidecall', ...goPeers], codecs: ['bytes', 'borrowed', 'json'] },
  { scenario: 'idle' },
  { scenario: 'growth' },
  { scenario: 'floor' },
  { scenario: 'busy' },
  { scenario: 'start' },
  { scenario: 'fairness' },
  { scenario: 'paced', peers: ['sidecall', 'sidecall-nopoll'] },
];

/** Each goal as a line: its text, the measured value, whether it was reached. */
export function goalsOf(rows) {
  const row = (wanted) =>
    rows.find((each) => Object.entries(wanted).every(([name, value]) => each[name] === value));
  const ring = { peer: 'sidecall', lane: 'ring' };
  const echo = { scenario: 'echo' };
  const goals = [];
  const add = (name, what, ours, theirs, isReached) => {
    if (ours === undefined || theirs === undefined || Number.isNaN(ours / theirs)) return;
    const value = ours / theirs;
    goals.push({ name, what, value: value.toFixed(2), isReached: isReached(value) });
  };
  const at = (part, size, inFlight, codec = 'bytes') =>
    row({ ...echo, ...part, size, inFlight, codec });

  const small = at(ring, 64, 1, 'json');
  add(
    'P1',
    '64 B JSON, p50, against the ping-pong of bytes in C: at most 0.6',
    small?.p50Us,
    at({ peer: 'c-uds' }, 64, 1)?.p50Us,
    (v) => v <= 0.6,
  );
  add(
    'P1',
    'the same against raw `net`: at most 0.3',
    small?.p50Us,
    at({ peer: 'net' }, 64, 1)?.p50Us,
    (v) => v <= 0.3,
  );
  const woken = row({ scenario: 'wake', ...ring });
  add(
    'P2',
    'asleep, p50, against raw `net`: at most 1.1',
    woken?.p50Us,
    row({ scenario: 'wake', peer: 'net' })?.p50Us,
    (v) => v <= 1.1,
  );
  const p3 = { 1024: 5, 10240: 6, 102400: 3.5, 1024000: 3 };
  for (const [text, least] of Object.entries(p3)) {
    const size = Number(text);
    const theirs = goPeers
      .map((peer) => at({ peer }, size, 16)?.callsPerSecond)
      .filter((each) => each !== undefined);
    add(
      'P3',
      `${bytes(size)}, 16 in flight, against the better of golib/uds and grpc-go: at least ${least}`,
      at(ring, size, 16)?.callsPerSecond,
      theirs.length === 0 ? undefined : Math.max(...theirs),
      (v) => v >= least,
    );
  }
  const p4 = { 'child_process-advanced': 5, 'vscode-jsonrpc': 12, 'grpc-js': 40 };
  for (const [peer, least] of Object.entries(p4)) {
    add(
      'P4',
      `1,024 B, 16 in flight, against \`${peer}\`: at least ${least}`,
      at(ring, 1024, 16)?.callsPerSecond,
      at({ peer }, 1024, 16)?.callsPerSecond,
      (v) => v >= least,
    );
  }
  for (const size of [1024, 10_240, 102_400, 1_024_000]) {
    add(
      'P4',
      `${bytes(size)}, 16 in flight, against \`zeromq\`: at least 3`,
      at(ring, size, 16)?.callsPerSecond,
      at({ peer: 'zeromq' }, size, 16)?.callsPerSecond,
      (v) => v >= 3,
    );
  }
  for (const codec of ['bytes', 'borrowed']) {
    for (const size of [10_240, 102_400, 1_024_000]) {
      add(
        'P5',
        `${bytes(size)} (${codec}), 16 in flight, against the ring in C with 1: at least 0.5`,
        at(ring, size, 16, codec)?.callsPerSecond,
        at({ peer: 'c-ring' }, size, 1)?.callsPerSecond,
        (v) => v >= 0.5,
      );
    }
  }
  // Messages without fresh memory, on both sides: `bytes.borrowed`, and `into` for the answers.
  const others = { 'shmipc-go': 1, zeromq: 3, 'golib-uds': 3, 'grpc-go-uds': 3 };
  for (const size of [102_400, 1_024_000]) {
    for (const [peer, least] of Object.entries(others)) {
      add(
        'P15',
        `${bytes(size)} borrowed, 16 in flight, against \`${peer}\`: at least ${least}`,
        at(ring, size, 16, 'borrowed')?.callsPerSecond,
        at({ peer }, size, 16)?.callsPerSecond,
        (v) => v >= least,
      );
    }
  }
  for (const codec of ['json', 'protobuf']) {
    const unary = { scenario: `unary-${codec}`, ...ring };
    add(
      'P6',
      `${codec} of 1 kB, against bytes: at least 0.5`,
      row({ ...unary, codec })?.callsPerSecond,
      row({ ...unary, codec: 'bytes' })?.callsPerSecond,
      (v) => v >= 0.5,
    );
  }
  for (const codec of ['json', 'protobuf']) {
    const unary = { scenario: `unary-${codec}`, ...ring };
    add(
      'P6',
      `${codec} of 1 kB, against golib/uds with bytes in protobuf: at least 3`,
      row({ ...unary, codec })?.callsPerSecond,
      at({ peer: 'golib-uds' }, 1024, 16)?.callsPerSecond,
      (v) => v >= 3,
    );
  }
  const lent = { scenario: 'lease', ...ring, what: 'untouched' };
  const shortCall = row({ scenario: 'lease', ...ring, what: 'bytes', size: 64 })?.p50Us;
  for (const { size, p50Us } of rows.filter(
    (each) => each.scenario === 'lease' && each.peer === 'sidecall' && each.what === 'untouched',
  )) {
    add(
      'P16',
      `a lease of ${bytes(size)} that nobody touches, p50, against a call of 64 B of \`bytes\`: at most 1.3`,
      p50Us,
      shortCall,
      (v) => v <= 1.3,
    );
  }
  add(
    'P7',
    'a lease of 4 MB that nobody touches, p50, against 64 B: at most 1.5',
    row({ ...lent, size: 4_194_304 })?.p50Us,
    row({ ...lent, size: 64 })?.p50Us,
    (v) => v <= 1.5,
  );
  for (const { size } of rows.filter(
    (each) => each.scenario === 'lease' && each.peer === 'shmipc-go-notouch',
  )) {
    add(
      'P7',
      `a lease of ${bytes(size)} that nobody touches, p50, against shmipc-go: at most 1`,
      row({ ...lent, size })?.p50Us,
      row({ scenario: 'lease', peer: 'shmipc-go-notouch', size })?.p50Us,
      (v) => v <= 1,
    );
  }
  const flow = { scenario: 'stream', ...ring, size: 65_536 };
  for (const what of Object.keys(flows)) {
    add(
      'P8',
      `stream of 64 kB messages (${what}), bytes/s against one way through the ring in C: at least 0.5`,
      row({ ...flow, what })?.bytesPerSecond,
      row({ scenario: 'stream', peer: 'c-ring-oneway', size: 65_536 })?.bytesPerSecond,
      (v) => v >= 0.5,
    );
    add(
      'P8',
      `the same (${what}): MB of growth over its second half, at most 32`,
      row({ ...flow, what })?.growthBytes,
      1e6,
      (v) => v <= 32,
    );
  }
  const depths = rows.filter(
    (each) => each.scenario === 'growth' && each.lane === 'ring' && each.what === 'in flight',
  );
  const peak = Math.max(...depths.map((each) => each.callsPerSecond));
  add(
    'P12',
    '256 in flight against the best of 1 to 256: at least 0.8',
    depths.find((each) => each.inFlight === 256)?.callsPerSecond,
    depths.length === 0 ? undefined : peak,
    (v) => v >= 0.8,
  );
  const grown = { scenario: 'growth', ...ring };
  add(
    'P12',
    '1,000 sessions on one listener against 10: at least 0.8',
    row({ ...grown, what: '1000 sessions' })?.callsPerSecond,
    row({ ...grown, what: '10 sessions' })?.callsPerSecond,
    (v) => v >= 0.8,
  );
  const long = row({ ...grown, what: 'many calls' });
  add(
    'P12',
    `calls/s at the end of ${long?.calls.toLocaleString('en')} calls against their beginning: at least 0.8`,
    long?.lastPerSecond,
    long?.firstPerSecond,
    (v) => v >= 0.8,
  );
  for (const by of ['signal', 'deadline']) {
    add(
      'P12',
      `the loop is held while 10,000 calls are ended by a ${by}, p50 against 20 ms: at most 1`,
      row({ ...grown, what: `10000 ended by a ${by}` })?.p50Us,
      20_000,
      (v) => v <= 1,
    );
  }
  const floors = [
    ['L1', 'warm', 64, 16, 2],
    ['L1', 'warm', 64, 1, 2],
    ['L1', 'warm', 1024, 16, 1.25],
    ['L1', 'warm', 1024, 1, 1.5],
    ['L2', 'cold', 1024, 16, 2],
  ];
  for (const [name, what, size, inFlight, most] of floors) {
    const cell = { scenario: 'floor', what, size, inFlight };
    const calls = what === 'cold' ? 'the first 10,000 calls' : 'a call';
    const ours = row({ ...cell, peer: 'sidecall-inside' });
    const least = row({ ...cell, peer: 'ring-floor' });
    add(
      name,
      `processor time of ${calls}, ${size} B, ${inFlight} in flight, against the least over our ring: at most ${most}`,
      ours && cpuPerCall(ours),
      least && cpuPerCall(least),
      (v) => v <= most,
    );
  }
  for (const [name, what, text, peer, most] of [
    ['L7', 'import', "processor time of `import 'sidecall'` against `grpc-js`", 'grpc-js', 0.7],
    ['L8', 'helper', 'a helper until its first answer against `fork()`', 'child_process-json', 1.3],
    ['L8', 'command', '`sidecall --version` against `node -e 0`', 'child_process-json', 2],
  ]) {
    const cell = { scenario: 'start', what };
    add(
      name,
      `${text}: at most ${most}`,
      row({ ...cell, peer: 'sidecall' })?.p50Us,
      row({ ...cell, peer })?.p50Us,
      (v) => v <= most,
    );
  }
  for (const processes of [1, 2, 4, 8, 16]) {
    const cell = { scenario: 'busy', what: `beside ${processes}` };
    const fork = { ...cell, peer: 'child_process-json' };
    for (const [lane, slowest, least] of [
      ['ring', 1.1, 1.1],
      ['socket', 1.2, 1],
    ]) {
      const own = { ...cell, peer: 'sidecall', lane };
      const text = `beside ${processes} computing processes, ${lane} lane, JSON of 1 kB, against \`child_process\``;
      add(
        'L9',
        `${text}: p50 of one call at a time, at most ${slowest}`,
        row({ ...own, inFlight: 1 })?.p50Us,
        row({ ...fork, inFlight: 1 })?.p50Us,
        (v) => v <= slowest,
      );
      add(
        'L9',
        `${text}: calls/s of 16, at least ${least}`,
        row({ ...own, inFlight: 16 })?.callsPerSecond,
        row({ ...fork, inFlight: 16 })?.callsPerSecond,
        (v) => v >= least,
      );
    }
  }
  const beside = (peer, what) => row({ scenario: 'fairness', ...peer, what })?.p99Us;
  for (const what of ['upload', 'upload borrowed', 'stream', 'stream borrowed', 'stream leased']) {
    const [transfer, how] = what.split(' ');
    const large = transfer === 'upload' ? 'a 64 MiB message' : 'a stream of 64 kB messages';
    const text = `100 B calls beside ${large}${how === undefined ? '' : ` (${how})`}, p99`;
    add(
      'P13',
      `${text} against quiet: at most 10`,
      beside(ring, what),
      beside(ring, 'quiet'),
      (v) => v <= 10,
    );
    const others = fairnessPeers
      .map((peer) => beside({ peer }, transfer))
      .filter((each) => each !== undefined);
    add(
      'P13',
      `${text} against the best of ${fairnessPeers.map((peer) => `\`${peer}\``).join(', ')}: at most 0.2`,
      beside(ring, what),
      others.length === 0 ? undefined : Math.min(...others),
      (v) => v <= 0.2,
    );
  }
  add(
    'P9',
    'socket lane, 1 kB, 16 in flight, against `child_process`: at least 1.5',
    at({ peer: 'sidecall', lane: 'socket' }, 1024, 16)?.callsPerSecond,
    at({ peer: 'child_process-advanced' }, 1024, 16)?.callsPerSecond,
    (v) => v >= 1.5,
  );
  for (const codec of ['json', 'bytes', 'borrowed']) {
    const memory = row({ scenario: 'allocs', ...ring, codec, size: 1_024 });
    add(
      'P10',
      `${codec}, 1 kB: bytes of heap per call, at most 600`,
      memory?.heapBytesPerCall,
      1,
      (v) => v <= 600,
    );
    add(
      'P10',
      `${codec}, 1 kB: blocks of the C library per call at the caller, goal 0 (V8's own lists of pages take some: at most 0.1)`,
      memory?.nativeBlocksPerCall,
      1,
      (v) => v <= 0.1,
    );
  }
  const idle = row({ scenario: 'idle', ...ring });
  add(
    'P11',
    'KiB per idle session beside its rings, at most 48',
    idle?.rssBytesPerSession,
    1024,
    (v) => v <= 48,
  );
  add('P11', 'wake-ups per idle session', idle?.wakeUpsPerSession, 1, (v) => v < 0.05);
  const polled = row({ scenario: 'paced', ...ring });
  const unpolled = row({ scenario: 'paced', peer: 'sidecall-nopoll', lane: 'ring' });
  if (polled !== undefined && unpolled !== undefined) {
    add(
      'P14',
      'CPU at 1,000 calls/s against polling off: at most 1.3',
      cpuPerCall(polled),
      cpuPerCall(unpolled),
      (v) => v <= 1.3,
    );
  }
  const death = row({ scenario: 'reliability', ...ring, what: 'death' });
  add(
    'G10',
    'ms from SIGKILL to the last rejection, p99, at most 20',
    death?.p99Us,
    1000,
    (v) => v <= 20,
  );
  const respawn = row({ scenario: 'reliability', ...ring, what: 'respawn' });
  add(
    'G11',
    'ms from SIGKILL to the next good call, p99, at most 400',
    respawn?.p99Us,
    1000,
    (v) => v <= 400,
  );
  return goals;
}

function bytes(size) {
  return `${size.toLocaleString('en')} B`;
}
