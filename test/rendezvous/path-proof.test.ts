import { readdirSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { HandOverService } from '../../src/rendezvous/hand-over-service.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { makeProof } from '../../src/rendezvous/path-proof.ts';
import { until } from '../support/contract.ts';
import { scratchDirectory } from '../support/programs.ts';

const native = requireNative('the test');

describe('the proof of a successor', () => {
  it('gives nothing to a process that cannot write to the directory', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    await using listener = await listen({ path });
    const stop = new AbortController();
    const handingOver = listener.handOver({ signal: stop.signal }).catch((error) => error);
    await using session = await connect({ path });
    const call = session.client(HandOverService).takeOver();
    const steps = call[Symbol.asyncIterator]();
    const { value } = await steps.next();
    expect(value).toMatchObject({ step: 'prove', file: expect.stringMatching(/^socket\.proof-/) });
    await call.send('proved'); // without a file
    await expect(steps.next()).rejects.toMatchObject({ status: 'permission_denied' });
    expect(readdirSync(directory.path).sort()).toEqual(['socket', 'socket.lock']);
    stop.abort(new Error('enough'));
    expect(await handingOver).toMatchObject({ message: 'enough' });
  });

  it('leaves no file of a successor that is lost', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    await using listener = await listen({ path });
    const stop = new AbortController();
    const handingOver = listener.handOver({ signal: stop.signal }).catch((error) => error);
    const session = await connect({ path });
    const call = session.client(HandOverService).takeOver();
    const { value } = await call[Symbol.asyncIterator]().next();
    const { file } = value as { file: string };
    writeFileSync(directory.file(file), '');
    await session.close({ deadlineMs: 0 });
    await until(() => !readdirSync(directory.path).includes(file));
    stop.abort(new Error('enough'));
    await handingOver;
  });

  it('makes no file of another name', () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    writeFileSync(directory.file('kept'), '');
    const digits = 'a'.repeat(32);
    const names = [
      'kept',
      `socket.proof-${digits}x`,
      `../socket.proof-${digits}`,
      '',
      5,
      'socket.lock',
    ];
    for (const name of names) {
      expect(() => makeProof(native, path, name as string, false)).toThrow(
        expect.objectContaining({ code: 'ERR_SIDECALL_PROTOCOL' }),
      );
    }
    const remove = makeProof(native, path, `socket.proof-${digits}`, false);
    expect(readdirSync(directory.path).sort()).toEqual(['kept', `socket.proof-${digits}`]);
    remove();
    expect(readdirSync(directory.path)).toEqual(['kept']);
  });
});
