// The output of extensions: `console` inside their process, and the pipes of the process outside.
import { Console } from 'node:console';
import { Writable } from 'node:stream';

const waitingMax = 1_000;
const lineMax = 300;

/**
 * Replaces `console` of this process: each line goes to `send(line)`, whose promise settles when
 * the host has taken it. `console` does not wait, so at most 1,000 lines are on their way; what is
 * printed meanwhile is counted, and the number is sent instead.
 */
export function forwardConsole(send) {
  let waiting = 0;
  let dropped = 0;
  const forward = (line) => {
    if (waiting >= waitingMax) {
      dropped += 1;
      return;
    }
    waiting += 1;
    const settled = () => {
      waiting -= 1;
      if (waiting > 0 || dropped === 0) return;
      const text = `${dropped} more lines were printed faster than the host takes them`;
      dropped = 0;
      forward(text);
    };
    send(line).then(settled, settled);
  };
  const lines = (label) =>
    new Writable({
      decodeStrings: false,
      write(text, _encoding, done) {
        for (const line of text.trimEnd().split('\n')) forward(label + line);
        done();
      },
    });
  globalThis.console = new Console({
    stdout: lines(''),
    stderr: lines('error: '),
    colorMode: false,
  });
}

/**
 * Calls `onLine` for each line of a pipe, and reads no further until its promise has settled. A
 * line is cut at 300 letters. Resolves when the pipe has ended.
 */
export async function readLines(pipe, onLine) {
  let rest = '';
  try {
    for await (const chunk of pipe.setEncoding('utf8')) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop().slice(0, lineMax);
      for (const line of lines) await onLine(line.slice(0, lineMax));
    }
  } catch {
    // the pipe was destroyed with its process
  }
  if (rest !== '') await onLine(rest);
}
