// The conformance tests of Connect for gRPC, of our listener and of our target.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { goProgram, run } from '../support/go.ts';
import { programPath, scratchDirectory } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const config = `features:
  versions: [HTTP_VERSION_2]
  protocols: [PROTOCOL_GRPC]
  codecs: [CODEC_PROTO]
  supportsTls: false
`;

function protosOfTests(): string {
  const args = ['mod', 'download', '-json', 'connectrpc.com/conformance@v1.0.7'];
  const told = execFileSync('go', args, { cwd: tmpdir(), encoding: 'utf8' });
  return join((JSON.parse(told) as { Dir: string }).Dir, 'proto');
}

// Failures are those of grpc-js alone: it pads the base64 of trailers, sends the message OK, takes
// some messages that are cut off or one too many, and gives up messages that are followed by the
// status of an error in the same packet.
it.each([
  { mode: 'server', all: 259, errors: 129 },
  { mode: 'client', all: 387, errors: 174 },
])(
  'passes at least as many as with grpc-js alone, details of errors among them: $mode',
  async ({ mode, all, errors }) => {
    using scratch = scratchDirectory();
    writeFileSync(scratch.file('config.yaml'), config);
    const cases = rounds(1, 0) === 1 ? [] : ['--run', 'Errors/**'];
    const program = [process.execPath, programPath('conformance.mjs'), mode, protosOfTests()];
    const args = [
      '--conf',
      scratch.file('config.yaml'),
      '--mode',
      mode,
      ...cases,
      '--',
      ...program,
    ];
    const { stdout, stderr } = await run(goProgram('connectconformance'), args);
    const [, passed = '0'] = /^(\d+) passed, \d+ failed$/m.exec(stdout) ?? [];
    expect(Number(passed), `${stdout}${stderr}`).toBeGreaterThanOrEqual(rounds(all, errors));
  },
);
