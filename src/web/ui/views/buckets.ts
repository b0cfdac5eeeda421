// SPDX-License-Identifier: Apache-2.0
// Distributions in buckets, and their quantiles. Pure.

/** Of one call over all ranks. buckets: from, to (not in it), count. */
export interface Distribution { name: string; unit: string; total: number; ranks: number; buckets: [number, number, number][] }
export interface Bucket { from: number; to: number; count: number }

export const bucketsOf = (one: Distribution): Bucket[] => one.buckets.map(([from, to, count]) => ({ from, to, count }));
export const valuesOf = (one: Distribution): number => one.buckets.reduce((sum, [, , count]) => sum + count, 0);

/** The bucket in which a share of all values is reached; null: there are none. */
export function quantile(buckets: readonly Bucket[], share: number): Bucket | null {
  const all = buckets.reduce((sum, bucket) => sum + bucket.count, 0);
  let sum = 0;
  for (const bucket of buckets) {
    sum += bucket.count;
    if (all > 0 && sum >= share * all)
      return bucket;
  }
  return null;
}

/** Where a value is on an axis of powers, 0 to 1. */
export function logPlace(value: number, least: number, most: number): number {
  const low = Math.log10(Math.max(1, least)), high = Math.log10(Math.max(2, most));
  return (Math.log10(Math.max(1, value)) - low) / Math.max(1e-9, high - low);
}

/** Powers of ten, or of two for bytes, in a range: marks of an axis. */
export function powers(least: number, most: number, base: 2 | 10): number[] {
  const first = Math.ceil(Math.log(Math.max(1, least)) / Math.log(base) - 1e-9), last = Math.floor(Math.log(Math.max(1, most)) / Math.log(base) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first) / 12)), out: number[] = [];
  for (let power = first; power <= last; power += step)
    out.push(base ** power);
  return out;
}
