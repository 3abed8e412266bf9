// Every scenario by its name.
import { allocs } from './allocs.mjs';
import { busy } from './busy.mjs';
import { codecs } from './codecs.mjs';
import { connect } from './connect.mjs';
import { connectRate } from './connect-rate.mjs';
import { echo } from './echo.mjs';
import { fairness } from './fairness.mjs';
import { floor } from './floor.mjs';
import { growth } from './growth.mjs';
import { health100k } from './health100k.mjs';
import { idle } from './idle.mjs';
import { lease } from './lease.mjs';
import { paced } from './paced.mjs';
import { pingpong } from './pingpong.mjs';
import { pool } from './pool.mjs';
import { reliability } from './reliability.mjs';
import { shortStream } from './short-stream.mjs';
import { start } from './start.mjs';
import { stream } from './stream.mjs';
import { unaryJson, unaryProtobuf } from './unary.mjs';
import { users16 } from './users16.mjs';
import { wake } from './wake.mjs';

export const scenarios = {
  echo,
  wake,
  paced,
  'unary-json': unaryJson,
  'unary-protobuf': unaryProtobuf,
  stream,
  'short-stream': shortStream,
  lease,
  codecs,
  fairness,
  growth,
  floor,
  busy,
  allocs,
  idle,
  reliability,
  users16,
  health100k,
  pingpong,
  pool,
  connect,
  'connect-rate': connectRate,
  start,
};
