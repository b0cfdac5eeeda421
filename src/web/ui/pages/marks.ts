// SPDX-License-Identifier: Apache-2.0
// Where the marks on a line of time stand.

/** Marks of a lane that would lie on each other, side by side: in their order, which is that of time, and all between left and right. */
export function sideBySide(at: readonly number[], left: number, right: number): number[] {
  const step = Math.min(20, (right - left) / Math.max(1, at.length - 1));
  const places = [...at];
  for (let i = at.length - 1, limit = right; i >= 0; i--, limit -= step) limit = places[i] = Math.min(places[i]!, limit);
  for (let i = 0, limit = left; i < at.length; i++, limit += step) limit = places[i] = Math.max(places[i]!, limit);
  return places;
}
