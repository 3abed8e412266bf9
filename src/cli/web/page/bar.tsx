// SPDX-License-Identifier: MIT
// A part of a whole as a bar.

interface BarProps {
  readonly label: string;
  readonly value: number;
  /** The whole; 0: there is none yet. */
  readonly max: number;
  readonly text: string;
  /** The numbers are those of a problem. */
  readonly isBad?: boolean;
}

/** A bar with its name in front and its numbers behind. */
export function Bar({ label, value, max, text, isBad = false }: BarProps) {
  const part = max <= 0 ? 0 : Math.min(1, Math.max(0, value / max));
  return (
    <div class="bar">
      <span>{label}</span>
      <meter aria-label={label} min={0} max={1} value={part}>
        {text}
      </meter>
      <span class={isBad ? 'number problem' : 'number'}>{text}</span>
    </div>
  );
}
