// SPDX-License-Identifier: MIT
// The page of `sidecall inspect --web`: what is chosen, and the parts that show it.
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { choiceOf, choicesText, hashOf } from './chosen.ts';
import { type Theme, themes, useColors } from './colors.ts';
import { FilePage } from './file-page.tsx';
import { useChoices } from './live-data.ts';
import { ProcessPage } from './process-page.tsx';
import { useShortcut } from './shortcut.ts';

function App() {
  const { choices, problem } = useChoices();
  const [hash, setHash] = useState(location.hash);
  const [theme, setTheme] = useState<Theme>('auto');
  const colors = useColors(theme);
  useEffect(() => {
    const onHash = (): void => setHash(location.hash);
    addEventListener('hashchange', onHash);
    return () => removeEventListener('hashchange', onHash);
  }, []);
  useShortcut('t', () => setTheme(themes[(themes.indexOf(theme) + 1) % themes.length] ?? 'auto'));
  const chosen = choiceOf(hash, choices);
  useEffect(() => {
    if (hash !== '' || chosen === undefined) return;
    history.replaceState(undefined, '', hashOf(chosen)); // it stays chosen when it has ended
    setHash(location.hash);
  });
  const known = choices === undefined ? 0 : choices.processes.length + choices.files.length;
  return (
    <>
      <header>
        <h1>sidecall</h1>
        <label>
          Show{' '}
          <select
            value={chosen === undefined ? '' : hashOf(chosen)}
            onChange={(event) => {
              location.hash = event.currentTarget.value;
            }}
          >
            {known === 0 && <option value="">nothing yet</option>}
            {choices?.processes.map(({ pid, command }) => (
              <option key={pid} value={hashOf({ kind: 'process', pid })}>
                {`${pid} ${command}`}
              </option>
            ))}
            {choices?.files.map(({ name }, index) => (
              <option key={`file ${index}`} value={hashOf({ kind: 'file', index })}>
                {name}
              </option>
            ))}
            {chosen?.kind === 'process' &&
              choices?.processes.every(({ pid }) => pid !== chosen.pid) && (
                <option value={hashOf(chosen)}>{`${chosen.pid} (ended)`}</option>
              )}
          </select>
        </label>
        <label>
          Colors{' '}
          <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
            <option value="auto">of the system</option>
            <option value="light">light</option>
            <option value="dark">dark</option>
          </select>
        </label>
      </header>
      <main>
        {problem !== undefined && chosen?.kind !== 'process' && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        {chosen === undefined && choices !== undefined && <p>{choicesText(choices)}</p>}
        {chosen?.kind === 'process' && (
          <ProcessPage key={chosen.pid} pid={chosen.pid} colors={colors} />
        )}
        {chosen?.kind === 'file' && <FilePage key={chosen.index} index={chosen.index} />}
      </main>
      <footer>
        Keys: <kbd>p</kbd> pause, <kbd>r</kbd> record calls, <kbd>/</kbd> filter, <kbd>t</kbd>{' '}
        colors. Payloads are never shown.
      </footer>
    </>
  );
}

render(<App />, document.getElementById('app') as HTMLElement);
