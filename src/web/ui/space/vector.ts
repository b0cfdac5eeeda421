// SPDX-License-Identifier: Apache-2.0
// The window that is seen, as a drawing for paper and as a table: the same tiles as on the screen. Neighbouring columns of one function
// become one bar, so a file stays small.
import type { Collective, Picture, Tile, TileLane } from './data';
import { MESSAGE_FIELDS } from './data';
import type { Rgb } from './colours';
import { hex, mix, SHADES } from './colours';
import { inkOn } from '../design/colours';
import type { Pen } from '../pictures';
import type { Options } from './control';
import type { Layout } from './layout';
import { laneMiddle, layoutOf, messageShade, outline, shadeOf, thinned } from './layout';
import { FADE, fadedShade } from './raster';
import { ticksOf } from './ticks';
import { LANES_EACH, tileRange } from './tiles';
import type { Span } from './window';

export interface Bar { lane: number; from: number; to: number; depth: number; id: number; share: number; single: boolean; open: boolean }

export interface Shown {
  picture: Picture; whole: Span; view: Span; level: number; lanes: number;
  tile: (level: number, index: number, block: number) => Tile | null;
}

function* barsOfLane(one: TileLane, lane: number, tile: Tile, view: Span): Generator<Bar> {
  if (one.begin) {
    for (let i = 0; i < one.count; i++)
      if (one.end![i]! > view.from && one.begin[i]! < view.to)
        yield { lane, from: one.begin[i]!, to: one.end![i]!, depth: one.callDepth![i]!, id: one.callFunction![i]!, share: 1, single: true, open: one.callOpen![i]! > 0 };
    return;
  }
  const width = (tile.to - tile.from) / one.columns;
  for (let depth = 0; depth < one.depth; depth++)
    for (let column = 0; column < one.columns;) {
      const cell = column * one.depth + depth, id = one.columnFunction![cell]!;
      const share = one.columnShare![cell]! >> 4; // bars of nearly the same share are one
      let end = column + 1;
      let sum = one.columnShare![cell]!;
      while (end < one.columns && one.columnFunction![end * one.depth + depth] === id && one.columnShare![end * one.depth + depth]! >> 4 === share)
        sum += one.columnShare![end++ * one.depth + depth]!;
      const from = tile.from + column * width, to = tile.from + end * width;
      if (id >= 0 && sum > 0 && to > view.from && from < view.to)
        yield { lane, from, to, depth, id, share: sum / 255 / (end - column), single: false, open: false };
      column = end;
    }
}

/** Calls that reach over several tiles, each of which has a part of them, come once. */
export function* barsOf(shown: Shown): Generator<Bar> {
  const [first, last] = tileRange(shown.whole, shown.view, shown.level);
  for (let lane = 0; lane < shown.lanes; lane++) {
    const bars: Bar[] = [], latest = new Map<number, Bar>(); // single ones, by depth
    for (let index = first; index <= last; index++) {
      const tile = shown.tile(shown.level, index, Math.floor(lane / LANES_EACH)), one = tile?.lanes[lane % LANES_EACH];
      if (!tile || !one)
        continue;
      for (const bar of barsOfLane(one, lane, tile, shown.view)) {
        const before = latest.get(bar.depth);
        if (before && bar.single && bar.from === before.from && bar.from < tile.from) {
          Object.assign(before, { to: bar.to, open: bar.open });
          continue;
        }
        bars.push(bar);
        if (bar.single)
          latest.set(bar.depth, bar);
      }
    }
    yield* bars;
  }
}

export function* rowsOf(shown: Shown): Generator<(string | number | null)[]> {
  for (const bar of barsOf(shown))
    yield [shown.picture.lanes[bar.lane]?.label ?? '', bar.depth, shown.picture.functions[bar.id]?.name ?? '', Math.round(bar.from), Math.round(bar.to), Math.round(bar.share * 1000) / 1000];
}

const FADE_STEP = 2;
const LEFT = 130, TOP = 34, LETTER = 6.2; // pixels, the last one: of a letter about

export function sizeOf(shown: Shown, stacked: boolean): { width: number; height: number } {
  const layout = layoutOf(shown.picture.lanes.slice(0, shown.lanes).map(lane => lane.depth), stacked, 0, 700);
  return { width: 1280, height: Math.ceil(layout.tops[shown.lanes]!) + TOP + 40 };
}

/** Those in sight, of all blocks of lanes: parts of time may have the same message or operation. */
function tilesIn(shown: Shown): Tile[] {
  const [first, last] = tileRange(shown.whole, shown.view, shown.level), tiles: Tile[] = [];
  for (let index = first; index <= last; index++)
    for (let block = 0; block <= Math.floor((shown.lanes - 1) / LANES_EACH); block++) {
      const tile = shown.tile(shown.level, index, block);
      if (tile)
        tiles.push(tile);
    }
  return tiles;
}

function drawMessages(pen: Pen, shown: Shown, layout: Layout, x: (time: number) => number, plot: number, ink: string): void {
  const there = new Set<string>(), ends: number[] = [];
  let all = 0;
  for (const { messages, messageStep } of tilesIn(shown))
    for (let i = 0; i < messages.length; i += MESSAGE_FIELDS) {
      const [from, to, sent, received] = messages.subarray(i, i + 4) as unknown as [number, number, number, number], key = `${from} ${to} ${sent} ${received}`;
      if (from >= shown.lanes || to >= shown.lanes || there.has(key))
        continue;
      there.add(key);
      all += messageStep;
      ends.push(x(sent), TOP + laneMiddle(layout, from), x(received), TOP + laneMiddle(layout, to));
    }
  if (there.size)
    pen.lines(ends, ink, there.size > 400 ? 0.4 : 0.6, Math.round(1000 * messageShade(all, there.size, plot)) / 1000);
}

function drawCollectives(pen: Pen, shown: Shown, layout: Layout, x: (time: number) => number, plot: number, ink: string): void {
  const there = new Map<string, Collective>();
  for (const tile of tilesIn(shown))
    for (const one of tile.collectives)
      if (one.lanes.length > 1 && one.lanes.every(lane => lane < shown.lanes))
        there.set(`${one.lanes[0]} ${one.begin[0]}`, one);
  const drawn = thinned([...there.values()], plot), opacity = Math.round(1000 * shadeOf(drawn.length, plot)) / 1000; // as on the screen
  for (const one of drawn) {
    const points: number[] = [];
    outline(one, layout, x, -TOP, (at, y) => points.push(at, y));
    pen.area(points, ink, opacity);
  }
}

export interface Style { colours: readonly Rgb[]; ink: Rgb; soft: string; grid: string; lane: Rgb; legend: readonly (readonly [string, string])[] }

export function drawOn(pen: Pen, shown: Shown, { stacked, messages, collectives }: Options, { colours, ink, soft, grid, lane, legend }: Style): void {
  const { view } = shown, { width: whole, height } = sizeOf(shown, stacked);
  const layout = layoutOf(shown.picture.lanes.slice(0, shown.lanes).map(one => one.depth), stacked, 0, 700);
  const plot = whole - LEFT - 20, x = (at: number) => LEFT + (at - view.from) / (view.to - view.from) * plot;
  const ticks = ticksOf(view.from, view.to, 9);
  for (const [i, at] of ticks.at.entries()) {
    pen.line([x(at), TOP - 6, x(at), height - 36], grid);
    pen.text(ticks.labels[i]!, x(at), TOP - 12, { colour: soft, size: 11, align: 'middle' });
  }
  if (ticks.baseLabel)
    pen.text(`${ticks.baseLabel} +`, 4, TOP - 12, { colour: hex(ink), size: 11 });
  for (let i = 0; i < shown.lanes; i++) {
    pen.text(shown.picture.lanes[i]!.label, LEFT - 8, TOP + laneMiddle(layout, i) + 4, { colour: hex(ink), size: 11, align: 'end' });
    pen.rect(LEFT, TOP + layout.tops[i]!, plot, layout.rows[i]! * layout.rowHeight, hex(lane));
  }
  pen.clip(LEFT, 0, plot, height);
  for (const bar of barsOf(shown)) {
    const row = stacked ? bar.depth : 0;
    if (row >= layout.rows[bar.lane]!)
      continue;
    const left = Math.max(LEFT, x(bar.from)), right = Math.min(LEFT + plot, x(bar.to));
    const y = TOP + layout.tops[bar.lane]! + row * layout.rowHeight, colour = mix(lane, colours[bar.id] ?? lane, Math.max(0.15, bar.share));
    const thick = layout.rowHeight - (stacked ? 0.5 : 0);
    pen.rect(left, y, Math.max(0.3, right - left), thick, hex(colour));
    // each over what is behind it to the end, so that no seams are seen
    for (let before = Math.min(FADE, right - left); bar.open && before > 0; before -= FADE_STEP)
      pen.rect(right - before, y, before, thick, hex(mix(lane, colour, (fadedShade(before) + 1) / SHADES)));
    const name = shown.picture.functions[bar.id]?.name ?? '', letters = Math.floor((right - left - 8) / LETTER);
    if (bar.single && bar.id !== shown.picture.outside && stacked && layout.rowHeight >= 11 && letters >= Math.min(4, name.length))
      pen.text(name.length <= letters ? name : `${name.slice(0, letters - 1)}…`, left + 4, y + layout.rowHeight / 2 + 3.5, { colour: inkOn(hex(colour)), size: 10 });
  }
  if (collectives)
    drawCollectives(pen, shown, layout, x, plot, hex(ink));
  if (messages)
    drawMessages(pen, shown, layout, x, plot, hex(ink));
  pen.unclip();
  let at = LEFT;
  for (const [name, colour] of legend) {
    pen.rect(at, height - 20, 11, 11, colour);
    pen.text(name, at + 16, height - 10.5, { colour: soft, size: 11 });
    at += 34 + name.length * LETTER;
  }
}
