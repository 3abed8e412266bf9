// Resources of another process, from /proc; 0 where the process does not exist.
import { readdirSync, readFileSync } from 'node:fs';

/** CPU seconds in the program and in the kernel, in hundredths. */
export function cpuPartsOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return { user: Number(fields[11]) / 100, system: Number(fields[12]) / 100 };
  } catch {
    return { user: 0, system: 0 };
  }
}

/** CPU seconds of this process, in the program and in the kernel. */
export function ownCpuParts() {
  const { user, system } = process.cpuUsage();
  return { user: user / 1e6, system: system / 1e6 };
}

/** Both parts together. */
export function cpuOf(pid) {
  const { user, system } = cpuPartsOf(pid);
  return user + system;
}

/** Open descriptors of a process, and its mappings of shared memory. */
export function holdingsOf(pid) {
  return {
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    maps: readFileSync(`/proc/${pid}/maps`, 'latin1').split('/memfd:').length - 1,
  };
}

/** Resident bytes. */
export function rssOf(pid) {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * 4096;
  } catch {
    return 0;
  }
}
