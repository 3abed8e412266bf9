export function readNodes(): number;
export function ringPages(numaMaps: string): Map<number, number>;
