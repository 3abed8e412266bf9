// Every scenario by its name.
import { echo } from './echo.mjs';
import { fairness } from './fairness.mjs';
import { growth } from './growth.mjs';
import { idle } from './idle.mjs';
import { memory } from './memory.mjs';
import { paced } from './paced.mjs';
import { reliability } from './reliability.mjs';
import { stream } from './stream.mjs';
import { unaryJson, unaryProtobuf } from './unary.mjs';
import { wake } from './wake.mjs';

export const scenarios = {
  echo,
  wake,
  paced,
  'unary-json': unaryJson,
  'unary-protobuf': unaryProtobuf,
  stream,
  fairness,
  growth,
  memory,
  idle,
  reliability,
};
