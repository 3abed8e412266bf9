// SPDX-License-Identifier: MIT
// The colors of the page: light or dark, as chosen or as the system has them.
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';

/** The choices, in the order in which the key `t` goes through them. */
export const themes = ['auto', 'light', 'dark'] as const;
/** A choice of colors; `auto`: those of the system. */
export type Theme = (typeof themes)[number];

/** The colors to draw with. They are those of the style sheet before anything reads them there. */
export function useColors(theme: Theme): 'light' | 'dark' {
  const [isSystemDark, setSystemDark] = useState(() => darkSystem().matches);
  useEffect(() => {
    const system = darkSystem();
    const onChange = (): void => setSystemDark(system.matches);
    system.addEventListener('change', onChange);
    return () => system.removeEventListener('change', onChange);
  }, []);
  const ofSystem = isSystemDark ? 'dark' : 'light';
  const colors = theme === 'auto' ? ofSystem : theme;
  useLayoutEffect(() => {
    document.documentElement.dataset.colors = colors;
  }, [colors]);
  return colors;
}

function darkSystem(): MediaQueryList {
  return matchMedia('(prefers-color-scheme: dark)');
}
