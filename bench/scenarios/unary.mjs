// The cost of a codec: the same call in bytes, and in JSON or protobuf (goal P6). One object of
// four fields, one of them a string that fills it.
import { runEcho } from './echo.mjs';

function unary(codec) {
  return {
    name: `unary-${codec}`,
    about: `calls of 1 kB in ${codec}, beside bytes`,
    peers: ['sidecall'],
    codecs: ['bytes', codec],
    cells: ({ seconds }) =>
      ['bytes', codec].map((each) => ({ codec: each, size: 1024, inFlight: 16, seconds })),
    takes: () => true,
    run: runEcho,
  };
}

export const unaryJson = unary('json');
export const unaryProtobuf = unary('protobuf');
