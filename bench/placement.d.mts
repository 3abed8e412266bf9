export function ringPages(numaMaps: string): Map<number, number>;
