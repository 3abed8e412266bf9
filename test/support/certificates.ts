// Certificates for TLS in tests. They are files, valid until 2126, so that no test needs openssl,
// which made them:
//   openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 \
//     -subj /CN=localhost -addext subjectAltName=DNS:localhost \
//     -keyout localhost.key -out localhost.pem
// and app.pem, a certificate for the name `app` that the first one has signed.
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** A key and its certificate, as PEM. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

function read(name: string): Certificate {
  const file = (ending: string): string =>
    readFileSync(new URL(`certificates/${name}.${ending}`, import.meta.url), 'utf8');
  return { key: file('key'), cert: file('pem') };
}

/** A certificate for the name `localhost`, signed by itself. */
export const localhostCertificate = read('localhost');

/** A certificate for the name `app`, signed by {@link localhostCertificate}. */
export const appCertificate = read('app');

/** A new key in the form that SSH servers take. */
export function makeHostKey(): string {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return privateKey.export({ type: 'pkcs1', format: 'pem' }).toString();
}
