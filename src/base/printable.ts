// SPDX-License-Identifier: MIT
// Texts of other processes for a terminal.

// Control characters, and those that change the direction of what follows.
const hidden =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are the ones
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/**
 * The line without control characters, which a terminal obeys, and without line breaks: the rest
 * would look like a line of ours.
 */
export function printable(line: string): string {
  return line.replace(hidden, '\ufffd');
}

/** JSON with such characters escaped, and the line breaks between its parts. */
export function printableJson(text: string): string {
  return text.replace(hidden, (each) =>
    each === '\n' ? each : `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
