// SPDX-License-Identifier: MIT
// A part of the page that scrolls.
import type { ComponentChildren } from 'preact';

interface ScrollProps {
  /** The name of the part, for readers of screens. */
  readonly label: string;
  readonly children: ComponentChildren;
}

/** Keys reach it, too, so that they can scroll it. */
export function Scroll({ label, children }: ScrollProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: otherwise keys could not scroll it
    <section class="scroll" tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
