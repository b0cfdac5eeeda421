// SPDX-License-Identifier: Apache-2.0
// Where lanes are, from top to bottom. A lane is one bar (the innermost call is seen), or a row for each depth of its calls.
import type { Collective } from './data';

export interface Layout {
  /** Top of each lane in pixels, and of what would follow: lanes + 1. */
  tops: Float64Array;
  rowHeight: number;
  gap: number;
  stacked: boolean;
  rows: Uint8Array;
}

export const ROWS_MOST = 24;

const gapOf = (rowHeight: number) => Math.max(1, Math.min(6, Math.round(rowHeight / 4)));

/** `row`: pixels of a row; 0: as high as lets all lanes fit into `height`, within what can be read and what looks like a bar. */
export function layoutOf(depths: readonly number[], stacked: boolean, row: number, height: number): Layout {
  const rows = Uint8Array.from(depths, depth => stacked ? Math.min(ROWS_MOST, Math.max(1, depth)) : 1);
  const all = rows.reduce((sum, n) => sum + n, 0) || 1, [least, most] = all > depths.length ? [5, 56] : [6, 110];
  let rowHeight = Math.round(row) || most;
  while (!row && rowHeight > least && all * rowHeight + depths.length * gapOf(rowHeight) > height)
    rowHeight--;
  const gap = gapOf(rowHeight);
  const tops = new Float64Array(depths.length + 1);
  for (let i = 0; i < depths.length; i++)
    tops[i + 1] = tops[i]! + rows[i]! * rowHeight + gap;
  return { tops, rowHeight, gap, stacked, rows };
}

/** The lane at y, or -1. */
export function laneAt(layout: Layout, y: number): number {
  const { tops } = layout, count = tops.length - 1;
  if (y < 0 || count < 1 || y >= tops[count]!)
    return -1;
  let low = 0, high = count - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle]! <= y)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/** The row of its lane at y: the depth of calls, if lanes are stacked. */
export function rowAt(layout: Layout, lane: number, y: number): number {
  return Math.max(0, Math.min(layout.rows[lane]! - 1, Math.floor((y - layout.tops[lane]!) / layout.rowHeight)));
}

export function laneMiddle(layout: Layout, lane: number): number {
  return layout.tops[lane]! + layout.rows[lane]! * layout.rowHeight / 2;
}

/** Around a collective operation: along the begins of its lanes from top to bottom, and back along its ends. `x` of a time; the shape is
 * at least a pixel wide. */
export function outline(one: Collective, layout: Layout, x: (time: number) => number, top: number, put: (x: number, y: number) => void): void {
  const count = one.lanes.length;
  for (let i = 0; i < count; i++) {
    const lane = one.lanes[i]!, y = layout.tops[lane]! - top, begin = x(one.begin[i]!);
    put(begin, y);
    put(begin, y + layout.rows[lane]! * layout.rowHeight);
  }
  for (let i = count - 1; i >= 0; i--) {
    const lane = one.lanes[i]!, y = layout.tops[lane]! - top, end = Math.max(x(one.end[i]!), x(one.begin[i]!) + 1);
    put(end, y + layout.rows[lane]! * layout.rowHeight);
    put(end, y);
  }
}

/** Those of all collectives that are drawn over so many pixels: one for each at most, and evenly. For tiles leave out different parts of what there is, and would
 * differ in shade if all that they have were drawn. */
export function thinned<T>(all: readonly T[], pixels: number): readonly T[] {
  const most = Math.max(1, Math.floor(pixels));
  return all.length <= most ? all : Array.from({ length: most }, (_, i) => all[Math.floor(i * all.length / most)]!);
}

/** How dark each line of messages is. `messages`: all of this part of the time, `wide` pixels of it, of which `lines` are drawn. Lines over each other add up: the more
 * messages a pixel has, the darker it is, whatever was left out. */
export function messageShade(messages: number, lines: number, wide: number): number {
  const share = 0.5 + 0.25 * Math.log10(1 + messages / Math.max(1, wide));
  return Math.max(0.02, Math.min(0.8, 0.15 * share * wide / Math.max(1, lines)));
}

/** How dark each of so many is: many only darken the picture. */
export const shadeOf = (count: number, pixels: number) => Math.max(0.02, Math.min(0.16, 0.01 * pixels / Math.max(1, count)));
