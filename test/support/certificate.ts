import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { scratchDirectory } from './programs.ts';

/** A certificate for the name `local`, signed by itself, as PEM. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
  /** The same key in the older form that SSH servers take. */
  readonly hostKey: string;
}

export function makeCertificate(): Certificate {
  using scratch = scratchDirectory();
  const openssl = (...args: string[]): void =>
    void execFileSync('openssl', args, { cwd: scratch.path, stdio: 'pipe' });
  const subject = ['-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=local'];
  openssl('req', '-x509', ...subject, '-keyout', 'key.pem', '-out', 'cert.pem');
  openssl('rsa', '-in', 'key.pem', '-traditional', '-out', 'host.pem');
  const read = (name: string): string => readFileSync(scratch.file(name), 'utf8');
  return { key: read('key.pem'), cert: read('cert.pem'), hostKey: read('host.pem') };
}
