// SPDX-License-Identifier: MIT
// A part of the page that scrolls.
import type { ComponentChildren } from 'preact';

interface ScrollProps {
  /** The name of the part, for readers of screens. */
  readonly label: string;
  /** Its cells are words, and begin on the left. */
  readonly hasWords?: boolean;
  readonly children: ComponentChildren;
}

/** Keys reach it, too, so that they can scroll it. */
export function Scroll({ label, hasWords = false, children }: ScrollProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: otherwise keys could not scroll it
    <section class={hasWords ? 'scroll words' : 'scroll'} tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
