import { statSync } from 'node:fs';

export function modeOf(path: string): string {
  return (statSync(path).mode & 0o7777).toString(8);
}
