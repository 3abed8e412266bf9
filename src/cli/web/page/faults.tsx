// SPDX-License-Identifier: MIT
// Broken invariants that were found in a copy of memory.
import { countText } from './texts.ts';

/** Faults that are drawn: memory that is damaged can have one in each record. */
const shownMax = 50;

/** The first faults. Nothing is drawn where there are none. */
export function Faults({ faults }: { readonly faults: readonly string[] }) {
  const hidden = faults.length - shownMax;
  return (
    <>
      {faults.slice(0, shownMax).map((fault, at) => (
        <p key={at} class="problem">
          Fault: {fault}
        </p>
      ))}
      {hidden > 0 && <p class="muted">and {countText(hidden)} more faults</p>}
    </>
  );
}
