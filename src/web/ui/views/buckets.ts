// SPDX-License-Identifier: Apache-2.0
// Distributions in buckets: added over processes, and their quantiles. Pure.

/** buckets: from, to (not in it), count; flat. */
export interface Distribution { name: string; unit: string; rank?: number | null; process?: number | null; count: number; total: number; buckets: number[] }
export interface Bucket { from: number; to: number; count: number }

/** Adds distributions, whose buckets may be of different widths: what lies within a wider one counts for that. */
export function added(parts: readonly Distribution[]): Bucket[] {
  const all: Bucket[] = [];
  for (const part of parts)
    for (let i = 0; i + 2 < part.buckets.length; i += 3)
      all.push({ from: part.buckets[i]!, to: part.buckets[i + 1]!, count: part.buckets[i + 2]! });
  all.sort((a, b) => a.from - b.from || b.to - a.to);
  const out: Bucket[] = [];
  for (const bucket of all) {
    const last = out[out.length - 1];
    if (last && bucket.from < last.to) {
      last.to = Math.max(last.to, bucket.to);
      last.count += bucket.count;
    } else
      out.push({ ...bucket });
  }
  return out;
}

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
