// SPDX-License-Identifier: MIT
// The checks of `sidecall doctor`: each tries a feature on this machine.

import { Buffer } from 'node:buffer';
import { existsSync, statSync } from 'node:fs';
import { release } from 'node:os';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { nativeState, platformName, processReport } from '../addon/load-addon.ts';
import { errorText } from '../base/error-text.ts';
import { ignore } from '../base/ignore-errors.ts';
import { version } from '../base/version.ts';
import { spawnHelper } from '../helper/spawn-helper.ts';
import { type Capabilities, capabilities } from '../open/capabilities.ts';
import { listen } from '../rendezvous/listen.ts';
import type { DoctorReport, Finding, LaneFinding } from './findings.ts';
import { DoctorService, runSelfTest } from './self-test.ts';

const good: Finding = { ok: true, reason: undefined };
const bad = (reason: string): Finding => ({ ok: false, reason });

/** Never throws: what fails is part of the report. */
export async function examine(onStep: (step: string) => void): Promise<DoctorReport> {
  onStep('loading the addon');
  const told = capabilities();
  const { attempts } = nativeState();
  onStep('asking the kernel');
  const features = featuresOf(told);
  onStep('meeting at a path');
  const { directory, path } = await connectAtPath(told);
  onStep('starting a helper and calling it for a second');
  const { helper, selfTest } = await callHelper();
  const report = {
    sidecall: version,
    node: told.node,
    platform: platformName(),
    kernel: release(),
    addon: {
      loaded: told.addon,
      file: told.addonFile,
      reason: told.addonReason,
      tried: attempts,
    },
    features,
    limits: { openFiles: openFiles(), socketPathMaxBytes: told.socketPathMaxBytes },
    socketDirectory: directory,
    lanes: { helper, path },
    selfTest,
  };
  const ok = told.addon && directory.ok && helper.ok && path.ok && selfTest.ok;
  return { ok, ...report, advice: adviceOn(told, report) };
}

function featuresOf(told: Capabilities): DoctorReport['features'] {
  const { addon, reason } = nativeState();
  const sealedMemory = told.ringReason === undefined ? good : bad(told.ringReason);
  const dies = told.helpersDieWithParent;
  const helpersDieWithParent = dies
    ? good
    : bad(addon === undefined ? `no addon: ${reason}` : 'only Linux kills them; they see the end');
  if (addon === undefined) {
    const none = bad(`no addon: ${reason}`);
    return { sealedMemory, peerPidfd: none, peerGroups: none, helpersDieWithParent };
  }
  const { near, far } = addon.socketPair();
  try {
    const { isAlive, groups } = addon.peerCredentials(near);
    const peerPidfd =
      isAlive === undefined ? bad('this kernel has no SO_PEERPIDFD (Linux 6.5 has)') : good;
    const peerGroups = groups === undefined ? bad('this kernel has no SO_PEERGROUPS') : good;
    return { sealedMemory, peerPidfd, peerGroups, helpersDieWithParent };
  } catch (error) {
    const failed = bad(errorText(error));
    return { sealedMemory, peerPidfd: failed, peerGroups: failed, helpersDieWithParent };
  } finally {
    addon.closeDescriptor(near);
    addon.closeDescriptor(far);
  }
}

function openFiles(): { soft: string; hard: string } | undefined {
  const { open_files: found } = (processReport()?.userLimits ?? {}) as {
    open_files?: { soft: unknown; hard: unknown };
  };
  return found === undefined ? undefined : { soft: String(found.soft), hard: String(found.hard) };
}

const noLane = { lane: undefined, laneReason: undefined, origin: undefined };
const helperFile = fileURLToPath(new URL('self-test-helper.js', import.meta.url));

/** Listens at the default path of `listen()`, and lets a second process connect to it. */
async function connectAtPath(
  told: Capabilities,
): Promise<{ directory: DoctorReport['socketDirectory']; path: LaneFinding }> {
  const unknown = { path: undefined, mode: undefined, uid: undefined, pathBytes: undefined };
  if (!told.peerCredentials) {
    const refused = bad(`listen() and connect() ask the kernel, by the addon: ${told.addonReason}`);
    return { directory: { ...refused, ...unknown }, path: { ...refused, ...noLane } };
  }
  try {
    const listener = await listen();
    try {
      const folder = dirname(listener.path);
      const { mode, uid } = statSync(folder);
      const directory = {
        ...good,
        path: folder,
        mode: (mode & 0o7777).toString(8).padStart(4, '0'),
        uid,
        pathBytes: Buffer.byteLength(listener.path),
      };
      return { directory, path: await connectFromHelper(listener.path) };
    } finally {
      await listener.close({ deadlineMs: 1_000 });
    }
  } catch (error) {
    const failed = bad(errorText(error));
    return { directory: { ...failed, ...unknown }, path: { ...failed, ...noLane } };
  }
}

/** A helper that starts slowly is no warning of its own: the report says whether it has started. */
const quietly = { onEvent: ignore };

async function connectFromHelper(path: string): Promise<LaneFinding> {
  try {
    const helper = await spawnHelper(process.execPath, [helperFile], quietly);
    try {
      const found = await helper.client(DoctorService).connect({ path }, { timeoutMs: 10_000 });
      return { ...good, ...found };
    } finally {
      await helper.stop({ deadlineMs: 1_000 });
    }
  } catch (error) {
    return { ...bad(errorText(error)), ...noLane };
  }
}

async function callHelper(): Promise<{ helper: LaneFinding; selfTest: DoctorReport['selfTest'] }> {
  try {
    const helper = await spawnHelper(process.execPath, [helperFile], quietly);
    try {
      const { lane, laneReason, peer } = helper.session;
      const selfTest = await runSelfTest(helper);
      return { helper: { ...good, lane, laneReason, origin: peer.origin }, selfTest };
    } finally {
      await helper.stop({ deadlineMs: 1_000 });
    }
  } catch (error) {
    const reason = errorText(error);
    return { helper: { ...bad(reason), ...noLane }, selfTest: { ok: false, reason } };
  }
}

function adviceOn(
  told: Capabilities,
  report: Pick<DoctorReport, 'lanes' | 'selfTest' | 'limits' | 'socketDirectory'>,
): string[] {
  const advice: string[] = [];
  if (!told.addon) {
    advice.push(
      'Without the addon helpers still work, over an inherited pipe; listen() and connect() need identity: "path-permissions". If a packager left the file out, unpack "**/*.node" (docs/electron.md); SIDECALL_NATIVE names a file of your own.',
    );
  } else if (told.ringReason !== undefined) {
    advice.push('Sessions take the socket lane: all works, and long messages cost more.');
  }
  if (told.addon && !report.socketDirectory.ok) {
    advice.push(
      'listen() failed, for the reason beside it. Where that is the directory: set XDG_RUNTIME_DIR to one of yours with mode 0700, or give listen() a path.',
    );
  }
  if (!report.lanes.helper.ok || !report.selfTest.ok) {
    advice.push(
      'A helper could not be called: the reason stands beside it; docs/errors.md has each code.',
    );
  }
  if (process.platform === 'linux' && !existsSync('/proc/self')) {
    advice.push(
      '/proc is not mounted: sockets are found by name, but cannot be given a mode for other users, and no process is found by its id.',
    );
  }
  const soft = Number(report.limits.openFiles?.soft);
  if (soft < 1024) {
    advice.push(
      `Only ${soft} files may be open: a session takes up to 3. "ulimit -n 4096" raises that.`,
    );
  }
  return advice;
}
