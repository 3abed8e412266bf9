// A helper whose methods have messages of lengths that tell them apart. `hammer` writes records of
// such messages to the flight recorder of the process, as fast as it can, for so many milliseconds.
import { bytes, parent, service, unary } from '../../../dist/index.js';
import { threadRecorder } from '../../../dist/internal/open/thread-recorder.js';
import { FrameType } from '../../../dist/internal/wire/frame-header.js';
import { RecordEvent } from '../../../dist/internal/wire/recorder-layout.js';

const message = { request: bytes, response: bytes };
const Work = service('Work', { short: unary(message), long: unary(message), hammer: unary() });
const session = await parent();
session.serve(Work, { short: (value) => value, long: (value) => value, hammer });

function hammer(ms) {
  const recorder = threadRecorder();
  const short = recorder.nameOf({ method: 'Work.short', nameNumber: 0 });
  const long = recorder.nameOf({ method: 'Work.long', nameNumber: 0 });
  const until = performance.now() + ms;
  let written = 0;
  while (performance.now() < until) {
    for (let at = 0; at < 1_000; at += 1, written += 1) {
      // 4,096 is no multiple of 3: each place has another method than in the round before.
      const isLong = written % 3 === 0;
      const [length, name] = isLong ? [1_000, long] : [10, short];
      recorder.write(RecordEvent.sent, 1, FrameType.message, 7, 1, length, name, until - ms);
    }
  }
  return written;
}
