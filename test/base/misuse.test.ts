// Errors for arguments that a function does not take.

import { describe, expect, it } from 'vitest';
import { checkKeys } from '../../src/base/misuse.ts';
import { connect } from '../../src/rendezvous/connect.ts';

describe('options that are no object', () => {
  it('are named, with what was passed and what is known', async () => {
    await expect(connect(7 as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringMatching(
        /^the options of connect\(\) must be an object, got number; known options are .*\bpath\b/,
      ),
    });
  });

  it.each([
    [null, 'null'],
    [[1], 'an array'],
    [7, 'number'],
  ])('%j is %s', (given, name) => {
    expect(() => checkKeys('retry', given as never, ['attempts'] as never)).toThrow(
      `retry must be an object, got ${name}; known options are attempts`,
    );
  });
});
