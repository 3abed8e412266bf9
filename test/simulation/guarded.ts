// The frame of each simulated run: what goes wrong in it is a fault of its ledger.
import type { Ledger } from './ledger.ts';

/** Runs a case. Its errors, and rejections that are unhandled meanwhile, are faults. */
export async function guarded(ledger: Ledger, run: () => Promise<void>): Promise<void> {
  const onUnhandled = (error: unknown): void => {
    ledger.fault(`nobody handled: ${(error as Error)?.stack ?? String(error)}`);
  };
  const events = ['unhandledRejection', 'uncaughtException'] as const;
  for (const event of events) process.on(event, onUnhandled);
  try {
    await run();
  } catch (error) {
    ledger.fault(error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
  for (const event of events) process.off(event, onUnhandled);
}
