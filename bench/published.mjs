// The published cells of the five systems that set the floor, beside rows of ours. Ours are of
// another machine: the columns show orders of magnitude, and only the ratios within one system
// can be compared.

const number = (value) => Math.round(value).toLocaleString('en');
const micro = (value) => `${value.toFixed(1)} µs`;

/** Pieces of a page for all rows. */
export function publishedLines(rows) {
  const measured = rows.filter((row) => row.skipped === undefined);
  return [golib, healthChecks, shmipc, pingPong, connecting].flatMap((part) => {
    const { heading, columns, lines } = part(finder(measured));
    return [
      `### ${heading}`,
      '',
      `| ${columns.join(' | ')} |`,
      `|${'---|'.repeat(columns.length)}`,
      ...lines.map((cells) => `| ${cells.join(' | ')} |`),
      '',
    ];
  });
}

/** `find(wanted, show)`: a cell of ours, or a dash where it was not measured. */
function finder(rows) {
  return (wanted, show) => {
    const row = rows.find((one) =>
      Object.entries(wanted).every(([key, value]) => one[key] === value),
    );
    return row === undefined ? '–' : show(row);
  };
}

const rateOf = (row) => number(row.callsPerSecond);
const p50Of = (row) => micro(row.p50Us);

function golib(find) {
  const published = [
    [1024, '42,535', '51,137'],
    [10_240, '27,596', '18,217'],
    [102_400, '13,419', '3,607'],
    [1_024_000, '1,102', '466'],
  ];
  const here = (peer, lane, size) =>
    find({ scenario: 'users16', peer, lane, codec: 'bytes', size }, rateOf);
  return {
    heading: 'golib: 16 users, requests a second',
    columns: [
      'bytes',
      'golib, published',
      'gRPC, published',
      'golib, here',
      'grpc-go, here',
      'sidecall (ring), here',
      'sidecall (socket), here',
    ],
    lines: published.map(([size, first, second]) => [
      number(size),
      first,
      second,
      here('golib-uds', null, size),
      here('grpc-go-uds', null, size),
      here('sidecall', 'ring', size),
      here('sidecall', 'socket', size),
    ]),
  };
}

function healthChecks(find) {
  const here = (peer, lane) => find({ scenario: 'health100k', peer, lane }, p50Of);
  return {
    heading: 'grpc-unix-socket: the time of a health check',
    columns: ['', 'published', 'here'],
    lines: [
      ['gRPC over a Unix socket', '102 µs', here('grpc-go-uds', null)],
      ['gRPC over TCP', '127 µs', here('grpc-go-tcp', null)],
      ['sidecall (ring)', '–', here('sidecall', 'ring')],
      ['sidecall (socket)', '–', here('sidecall', 'socket')],
    ],
  };
}

function shmipc(find) {
  const published = [
    [64, 1_970, 2_657],
    [1024, 2_045, 2_680],
    [16_384, 1_996, 3_884],
    [65_536, 1_995, 10_259],
    [1_048_576, 1_873, 283_729],
  ];
  const here = (peer, what, size) => find({ scenario: 'lease', peer, what, size }, p50Of);
  return {
    heading: 'shmipc: a round trip whose payload is not touched',
    columns: [
      'bytes',
      'shmipc, published, 40 threads',
      'UDS, published',
      'shmipc-go, here, one at a time',
      'sidecall (ring), here, one at a time',
    ],
    lines: published.map(([size, first, second]) => [
      number(size),
      micro(first / 1000),
      micro(second / 1000),
      here('shmipc-go-notouch', 'untouched', size),
      here('sidecall', 'untouched', size),
    ]),
  };
}

function pingPong(find) {
  const published = [
    [1, '33,380', '55,383', '56,499'],
    [1024, '32,966', '48,990', '46,178'],
    [4096, '25,109', '38,677', '33,732'],
  ];
  const here = (peer, lane, size) =>
    find({ scenario: 'pingpong', peer, lane, size, what: '--numa default' }, rateOf);
  return {
    heading: 'The NUMA ping-pong: operations a second',
    columns: [
      'bytes',
      'different nodes, published',
      'same node, published',
      'default, published',
      'C socket, default, here',
      'sidecall (ring), default, here',
      'sidecall (socket), default, here',
    ],
    lines: published.map(([size, ...cells]) => [
      number(size),
      ...cells,
      here('c-uds', null, size),
      here('sidecall', 'ring', size),
      here('sidecall', 'socket', size),
    ]),
  };
}

function connecting(find) {
  const here = (peer, inFlight, show = rateOf) =>
    find({ scenario: 'connect-rate', peer, inFlight, what: 'connect each time' }, show);
  const ofCommand = (row) => `${row.serverUsPerCall} µs`;
  return {
    heading: 'Connecting for each request: requests a second, and the time of the command',
    columns: [
      'clients',
      'redis, TCP, published',
      'redis, Unix, published',
      'redis, TCP, here',
      'redis, Unix, here',
      'net, TCP, here',
      'sidecall-plain, Unix, here',
    ],
    lines: [
      [1, '13,559', '27,100', ...cellsOf(1)],
      [20, '26,820 (2.47 µs)', '39,804 (2.23 µs)', ...cellsOf(20)],
    ],
  };

  function cellsOf(clients) {
    return ['redis-tcp', 'redis-uds', 'net-tcp', 'sidecall-plain'].map(
      (peer) => `${here(peer, clients)} (${here(peer, clients, ofCommand)})`,
    );
  }
}
