// SPDX-License-Identifier: Apache-2.0
// Lanes of a tile as pixels. All is written into one array of 32-bit pixels, which is many times faster than a call of the canvas for each
// of 100 000 bars, and makes no objects. Pure: the same with and without a browser.
import type { TileLane } from './data';
import { SHADES } from './colours';

export interface Target { pixels: Uint32Array; width: number; height: number }

/** Colours of functions as pixels, in SHADES steps from the lane's colour to the function's own: shades[function * SHADES + step]. */
export interface Inks { shades: Uint32Array; functions: number; lane: number; edge: number }

/** The first row of a bar is made pixel by pixel, the others are copies. */
function repeatRow(target: Target, y: number, height: number): void {
  const { pixels, width } = target, start = y * width;
  for (let row = 1; row < height; row++)
    pixels.copyWithin(start + row * width, start, start + width);
}

/** Pixels of a lane in columns; `stacked`: a row for each depth, else deeper calls over outer ones. */
export function rasterColumns(target: Target, lane: TileLane, inks: Inks, y: number, rowHeight: number, rows: number, stacked: boolean): void {
  const { pixels, width, height } = target, columns = lane.columns, depth = lane.depth;
  const functions = lane.columnFunction!, share = lane.columnShare!;
  for (let row = 0; row < (stacked ? rows : 1); row++) {
    const top = y + row * rowHeight;
    if (top >= height)
      return;
    const start = top * width;
    const bar = Math.min(stacked && rowHeight > 3 ? rowHeight - 1 : rowHeight, height - top);
    pixels.fill(inks.lane, start, start + width);
    for (let d = stacked ? row : 0; d < (stacked ? Math.min(row + 1, depth) : depth); d++)
      for (let x = 0; x < width; x++) {
        const cell = Math.min(columns - 1, Math.floor(x * columns / width)) * depth + d;
        const id = functions[cell]!, part = share[cell]!;
        if (id < 0 || part === 0 || id >= inks.functions)
          continue;
        const step = Math.max(3, part * SHADES >> 8);
        const colour = inks.shades[id * SHADES + Math.min(SHADES - 1, step)]!;
        // Over an outer call, half of the time or more is seen as the inner one.
        if (stacked || d === 0 || part >= 128 || pixels[start + x] === inks.lane)
          pixels[start + x] = colour;
      }
    repeatRow(target, top, bar);
  }
}

export const FADE = 32; // pixels
const PALEST = 4;

/** The shade of a call that is open, so many pixels before its end. */
export const fadedShade = (before: number) => before >= FADE ? SHADES - 1 : PALEST + Math.floor((SHADES - 1 - PALEST) * before / FADE);

// Of calls narrower than that, by depth: the pixel of the last one, and how much of it they have together.
const NARROW = 0.5, narrowAt = new Int32Array(256), narrowShare = new Float64Array(256);

/** Pixels of single calls; those that are open get paler to their end. Over something else a call is seen from half a pixel on, as in columns: hundreds that take
 * no time would else hide what took it. `from`: the time of the left edge; `scale`: pixels a nanosecond. */
export function rasterCalls(target: Target, lane: TileLane, inks: Inks, from: number, scale: number, y: number, rowHeight: number, rows: number, stacked: boolean): void {
  const { pixels, width, height } = target;
  const begin = lane.begin!, end = lane.end!, ids = lane.callFunction!, depths = lane.callDepth!;
  const bars = stacked ? rows : 1;
  for (let row = 0; row < bars; row++)
    if (y + row * rowHeight < height)
      pixels.fill(inks.lane, (y + row * rowHeight) * width, (y + row * rowHeight + 1) * width);
  narrowAt.fill(-1);
  for (let i = 0; i < lane.count; i++) { // outer calls stand before those in them
    const row = stacked ? depths[i]! : 0, id = ids[i]!;
    if (row >= bars || id < 0 || id >= inks.functions)
      continue;
    const top = y + row * rowHeight;
    const left = Math.max(0, Math.round((begin[i]! - from) * scale)), right = Math.min(width, Math.max(Math.round((end[i]! - from) * scale), left + 1));
    if (top >= height || right <= left)
      continue;
    const start = top * width, wide = (end[i]! - begin[i]!) * scale, depth = depths[i]!;
    if (wide < NARROW) {
      narrowShare[depth] = wide + (narrowAt[depth] === left ? narrowShare[depth]! : 0);
      narrowAt[depth] = left;
      if (narrowShare[depth]! < NARROW && pixels[start + left] !== inks.lane)
        continue;
    }
    pixels.fill(inks.shades[id * SHADES + SHADES - 1]!, start + left, start + right);
    for (let x = Math.max(left, right - FADE); lane.callOpen![i] && x < right; x++)
      pixels[start + x] = inks.shades[id * SHADES + fadedShade(right - x)]!;
    if (right - left > 3 && (begin[i]! - from) * scale >= 0) // where one call ends and the next of the same function begins
      pixels[start + left] = inks.edge;
  }
  for (let row = 0; row < bars; row++) {
    const top = y + row * rowHeight;
    if (top < height)
      repeatRow(target, top, Math.min(stacked && rowHeight > 3 ? rowHeight - 1 : rowHeight, height - top));
  }
}
