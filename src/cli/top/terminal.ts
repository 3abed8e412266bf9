// SPDX-License-Identifier: MIT
// The terminal of `sidecall top`: keys that arrive one by one, and a screen that is drawn in place.
import { emitKeypressEvents } from 'node:readline';
import { createLogUpdate } from 'log-update';
import type { Key } from './keys.ts';
import type { Screen } from './screen.ts';

const enterAlternateScreen = '\u001b[?1049h\u001b[H';
const leaveAlternateScreen = '\u001b[?1049l';

/** A terminal that is in use until `close()`, which gives it back as it was. */
export class Terminal {
  readonly #draw = createLogUpdate(process.stdout, { showCursor: false });
  readonly #onKey: (key: Key) => void;
  readonly #onResize: () => void;
  readonly #hasColor: boolean;

  constructor(hasColor: boolean, onKey: (key: Key) => void, onResize: () => void) {
    this.#hasColor = hasColor;
    this.#onResize = onResize;
    this.#onKey = onKey;
    process.stdout.write(enterAlternateScreen);
    process.stdout.on('resize', onResize);
    emitKeypressEvents(process.stdin);
    if (process.stdin.isTTY) process.stdin.setRawMode(true);
    process.stdin.on('keypress', this.#onKeypress);
    process.stdin.resume();
  }

  get screen(): Screen {
    const { columns = 80, rows = 24 } = process.stdout;
    return { columns, rows, hasColor: this.#hasColor };
  }

  draw(lines: readonly string[]): void {
    this.#draw(lines.join('\n'));
  }

  close(): void {
    process.stdin.off('keypress', this.#onKeypress);
    process.stdout.off('resize', this.#onResize);
    if (process.stdin.isTTY) process.stdin.setRawMode(false);
    process.stdin.pause();
    this.#draw.clear();
    this.#draw.done();
    process.stdout.write(leaveAlternateScreen);
  }

  readonly #onKeypress = (_text: string | undefined, key: Key | undefined): void => {
    if (key !== undefined) this.#onKey(key);
  };
}
