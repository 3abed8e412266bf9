// SPDX-License-Identifier: MIT
// The process or file that is shown: it is in the address, so that the browser can go back to it.
import type { Choices } from '../page-data.ts';

/** A process or a saved copy. */
export type Choice =
  | { readonly kind: 'process'; readonly pid: number }
  | { readonly kind: 'file'; readonly index: number };

/** The choice as the part of the address behind `#`. */
export function hashOf(choice: Choice): string {
  return choice.kind === 'process' ? `#process/${choice.pid}` : `#file/${choice.index}`;
}

/** The choice in the address, or the first that there is. */
export function choiceOf(hash: string, choices: Choices | undefined): Choice | undefined {
  const [, kind, number] = /^#(process|file)\/(\d{1,10})$/.exec(hash) ?? [];
  if (kind === 'process') return { kind, pid: Number(number) };
  if (kind === 'file') return { kind, index: Number(number) };
  const first = choices?.processes[0];
  if (first !== undefined) return { kind: 'process', pid: first.pid };
  return choices?.files.length ? { kind: 'file', index: 0 } : undefined;
}

/** The words for a page without anything to show. */
export function choicesText({ isAll }: Choices): string {
  return isAll
    ? 'No process of yours allows it. Start one with SIDECALL_INSPECT=1 in its environment, or let it call configure({ inspection: true }) first. This page shows it as soon as it runs.'
    : 'The processes that were named have ended.';
}
