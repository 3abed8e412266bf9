// SPDX-License-Identifier: MIT
// Reports for people.

import type { ServiceDescription } from '../rpc/serving/reflection.ts';
import type { DoctorReport, Finding, LaneFinding } from './findings.ts';
import type { PathReport } from './remote.ts';

type Mark = 'ok' | 'no' | 'bad' | '';

const colors: { readonly [mark in Mark]: string } = { ok: '32', no: '33', bad: '31', '': '0' };

export function printReport(report: DoctorReport, hasColor: boolean): string {
  const { addon, features, limits, socketDirectory, lanes } = report;
  const rows: [string, Mark, string][] = [
    ['addon', addon.loaded ? 'ok' : 'bad', addonText(report)],
    ['sealed memory', ...optional(features.sealedMemory, 'for the ring lane')],
    ['peer pidfd', ...optional(features.peerPidfd, 'a peer cannot be taken for another')],
    ['peer groups', ...optional(features.peerGroups, 'policies may name groups')],
    ['die with parent', ...optional(features.helpersDieWithParent, 'helpers, even busy ones')],
    ['open files', '', filesText(limits.openFiles)],
    ['socket directory', socketDirectory.ok ? 'ok' : 'bad', directoryText(report)],
    ['lane of a helper', lanes.helper.ok ? 'ok' : 'bad', laneText(lanes.helper)],
    ['lane at a path', lanes.path.ok ? 'ok' : 'bad', laneText(lanes.path)],
    ['self-test', report.selfTest.ok ? 'ok' : 'bad', selfTestText(report)],
  ];
  const paint = (mark: Mark): string =>
    hasColor ? `\u001b[${colors[mark]}m${mark.padEnd(4)}\u001b[0m` : mark.padEnd(4);
  const lines = rows.map(([name, mark, text]) => `${name.padEnd(17)} ${paint(mark)} ${text}`);
  const head = `sidecall ${report.sidecall} · Node ${report.node} · ${report.platform} · kernel ${report.kernel}`;
  const advice = report.advice.map((text) => `→ ${text}`);
  const verdict = report.ok ? 'All is well.' : 'Something does not work.';
  return [head, '', ...lines, '', ...advice, verdict].join('\n');
}

function optional({ ok, reason }: Finding, what: string): [Mark, string] {
  return ok ? ['ok', what] : ['no', reason ?? ''];
}

function addonText({ addon }: DoctorReport): string {
  if (!addon.loaded) return addon.reason ?? '';
  const source = addon.tried.at(-1)?.source;
  return `${addon.file} (${source === 'package' ? 'from the package' : source})`;
}

function filesText(files: DoctorReport['limits']['openFiles']): string {
  return files === undefined ? 'unknown' : `${files.soft} (hard limit: ${files.hard})`;
}

function directoryText({ socketDirectory, limits }: DoctorReport): string {
  const { ok, reason, path, mode, uid, pathBytes } = socketDirectory;
  if (!ok) return reason ?? '';
  return `${path}: mode ${mode}, uid ${uid}; a path in it has ${pathBytes} of ${limits.socketPathMaxBytes} bytes`;
}

function laneText({ ok, reason, lane, laneReason, origin }: LaneFinding): string {
  return ok ? `${lane}: ${laneReason}; identity: ${origin}` : (reason ?? '');
}

function selfTestText({ selfTest }: DoctorReport): string {
  if (!('calls' in selfTest)) return selfTest.reason;
  const { calls, medianUs, slowestUs, megabytes, streamed, pingMs, reason } = selfTest;
  const text = `${calls} calls, median ${medianUs} µs, slowest ${slowestUs} µs; ${megabytes} MB echoed; ${streamed} streamed; cancelled one; ping ${pingMs.toFixed(2)} ms`;
  return reason === undefined ? text : `${reason} (${text})`;
}

/** The report on a path. */
export function printPath(path: string, report: PathReport): string {
  const { verdict, reason, file, listener, lane, laneReason, pingMs } = report;
  const lines = [`${path}: ${verdict}${reason === undefined ? '' : `: ${reason}`}`];
  if (file !== undefined) lines.push(`file      ${file.type}, mode ${file.mode}, uid ${file.uid}`);
  if (listener !== undefined) {
    const { pid, uid, gid, origin } = listener;
    lines.push(`listener  pid ${pid}, uid ${uid}, gid ${gid}; identity: ${origin}`);
  }
  if (lane !== undefined) lines.push(`lane      ${lane}: ${laneReason}`);
  if (pingMs !== undefined) lines.push(`ping      ${pingMs.toFixed(2)} ms`);
  return lines.join('\n');
}

/** One line per method. */
export function printServices(services: readonly ServiceDescription[]): string {
  if (services.length === 0) return 'It serves nothing.';
  const lines = services.flatMap(({ methods }) =>
    methods.map(
      ({ name, kind, request, response }) =>
        `${name.padEnd(32)} ${kind.padEnd(13)} ${request}${response === undefined ? '' : ` → ${response}`}`,
    ),
  );
  return lines.join('\n');
}
