// SPDX-License-Identifier: MIT
// Keys of the page.
import { useEffect, useRef } from 'preact/hooks';

/** A key of the page, where no field has the focus. */
export function useShortcut(key: string, action: () => void): void {
  const latest = useRef(action);
  latest.current = action;
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const isTyped = event.target instanceof Element && event.target.matches('input, select');
      if (isTyped || event.key !== key || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      latest.current();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, [key]);
}
