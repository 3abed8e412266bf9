// SPDX-License-Identifier: MIT
// The second process of `sidecall doctor`.

import { parent } from '../helper/parent.ts';
import { connect } from '../rendezvous/connect.ts';
import { DoctorService } from './self-test.ts';

const session = await parent();
session.serve(DoctorService, {
  add: ({ a, b }) => ({ sum: a + b }),
  echo: (payload) => payload,
  async *count({ to }) {
    for (let number = 0; number < to; number += 1) yield number;
  },
  hang: (_request, { signal }) =>
    new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
  async connect({ path }) {
    const own = await connect({ path });
    const { lane, laneReason, peer } = own;
    await own.close();
    return { lane, laneReason, origin: peer.origin };
  },
});
