// SPDX-License-Identifier: Apache-2.0
// Strips: pictures of some lanes of one tile, as they are on the screen. A frame only puts strips side by side; one strip is painted anew in a
// frame, and until then an older one is stretched. So moving costs the same whatever is in the picture.
import type { Picture, Tile } from './data';
import { MESSAGE_FIELDS } from './data';
import type { Layout } from './layout';
import { laneMiddle, messageShade, outline, shadeOf, thinned } from './layout';
import type { Inks } from './raster';
import { rasterCalls, rasterColumns } from './raster';
import { LANES_EACH } from './tiles';

/** Lanes of a strip; a block of a tile has LANES_EACH. */
export const STRIP_LANES = 16;
const STRIPS_MOST = 96;

export interface Look {
  layout: Layout; inks: Inks; inkCss: string; messageCss: string; labelCss: readonly string[]; /** Colours of functions. */ bars: readonly string[]; font: string; background: number;
  messages: boolean; collectives: boolean; ratio: number;
  /** Changes with anything of the above. */
  version: number;
}

interface Strip { canvas: OffscreenCanvas; context: OffscreenCanvasRenderingContext2D; width: number; height: number; version: number; tile: Tile | null }

export class Strips {
  private readonly strips = new Map<string, Strip>();
  private image: ImageData | null = null;
  private pixels = new Uint32Array(0);
  private readonly widths = new Map<string, number>();

  /** The strip as it is; may be stale. */
  get(key: string): Strip | undefined {
    const strip = this.strips.get(key);
    if (strip) {
      this.strips.delete(key);
      this.strips.set(key, strip);
    }
    return strip;
  }

  fresh(strip: Strip | undefined, tile: Tile, width: number, look: Look): boolean {
    return strip !== undefined && strip.tile === tile && strip.width === width && strip.version === look.version;
  }

  clear(): void {
    this.strips.clear();
    this.widths.clear();
  }

  private room(key: string, width: number, height: number): Strip {
    let strip = this.strips.get(key);
    if (!strip && this.strips.size >= STRIPS_MOST) { // the one that was not used for longest
      const oldest = this.strips.keys().next().value!;
      strip = this.strips.get(oldest);
      this.strips.delete(oldest);
    }
    if (!strip) {
      const canvas = new OffscreenCanvas(width, height);
      strip = { canvas, context: canvas.getContext('2d', { alpha: false })!, width, height, version: -1, tile: null };
    }
    if (strip.canvas.width !== width || strip.canvas.height !== height) {
      strip.canvas.width = width;
      strip.canvas.height = height;
    }
    strip.width = width;
    strip.height = height;
    this.strips.set(key, strip);
    return strip;
  }

  private buffer(width: number, height: number): ImageData {
    if (!this.image || this.image.width !== width || this.image.height !== height) {
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    return this.image;
  }

  /** Lanes `first`..`last` (exclusive) of the picture, of a tile, `width` pixels wide. */
  paint(key: string, tile: Tile, picture: Picture, first: number, last: number, width: number, look: Look): Strip {
    const { layout } = look, top = layout.tops[first]!, height = Math.max(1, Math.round(layout.tops[last]! - top));
    const strip = this.room(key, width, height), image = this.buffer(width, height);
    const target = { pixels: this.pixels, width, height };
    const scale = width / (tile.to - tile.from);
    this.pixels.fill(look.background);
    const offset = Math.floor(first / LANES_EACH) * LANES_EACH;
    for (let i = first; i < last; i++) {
      const lane = tile.lanes[i - offset], y = Math.round(layout.tops[i]! - top), rows = layout.rows[i]!;
      if (!lane)
        continue;
      if (lane.columnFunction)
        rasterColumns(target, lane, look.inks, y, layout.rowHeight, rows, layout.stacked);
      else if (lane.begin)
        rasterCalls(target, lane, look.inks, tile.from, scale, y, layout.rowHeight, rows, layout.stacked);
    }
    strip.context.putImageData(image, 0, 0);
    if (layout.rowHeight >= 11 * look.ratio)
      this.labels(strip, tile, picture, first, last, offset, scale, look);
    if (look.collectives)
      this.collectives(strip, tile, first, last, scale, look);
    if (look.messages)
      this.messages(strip, tile, first, last, scale, look);
    strip.version = look.version;
    strip.tile = tile;
    return strip;
  }

  private labels(strip: Strip, tile: Tile, picture: Picture, first: number, last: number, offset: number, scale: number, look: Look): void {
    const { context, width } = strip, { layout } = look, least = 30 * look.ratio;
    context.font = look.font;
    context.textBaseline = 'middle';
    for (let i = first; i < last; i++) {
      const lane = tile.lanes[i - offset];
      const y = layout.tops[i]! - layout.tops[first]!;
      if (lane?.columnFunction)
        this.columnLabels(strip, lane, picture, layout.rows[i]!, y, tile.from <= picture.from_ns, look);
      if (!lane?.begin)
        continue;
      for (let k = 0; k < lane.count; k++) {
        const left = Math.max(0, (lane.begin[k]! - tile.from) * scale), right = Math.min(width, (lane.end![k]! - tile.from) * scale);
        const row = lane.callDepth![k]!, id = lane.callFunction![k]!;
        const hidden = (tile.from - lane.begin[k]!) * scale; // its begin has the name already, if there was room for one
        if (id === picture.outside || hidden > least || right - left < least || row >= layout.rows[i]! || !layout.stacked && this.covered(lane, k, least / scale))
          continue;
        const name = picture.functions[id]?.name ?? '';
        const text = this.cut(context, name, right - left - 8 * look.ratio);
        if (!text)
          continue;
        context.fillStyle = look.labelCss[id] ?? look.inkCss;
        context.fillText(text, left + 4 * look.ratio, y + (layout.stacked ? row : 0) * layout.rowHeight + layout.rowHeight / 2);
      }
    }
  }

  /** Where columns beside each other have nearly all of their time in the same function, they have its name once. What reaches the strip from
   * its left has the name there. */
  private columnLabels(strip: Strip, lane: Tile['lanes'][number], picture: Picture, rows: number, y: number, begins: boolean, look: Look): void {
    const { context, width } = strip, { layout, ratio } = look, { columns, depth } = lane, functions = lane.columnFunction!, share = lane.columnShare!;
    if (!layout.stacked)
      return;
    for (let row = 0; row < Math.min(rows, depth); row++)
      for (let column = 0, next; column < columns; column = next) {
        const id = functions[column * depth + row]!;
        for (next = column + 1; next < columns && functions[next * depth + row] === id && share[next * depth + row]! >= 200; next++);
        const first = share[column * depth + row]! < 128 ? column + 1 : column; // it begins within the column
        const left = first * width / columns, room = (next - first) * width / columns - 8 * ratio;
        if (id < 0 || id === picture.outside || room < 22 * ratio || column === 0 && !begins)
          continue;
        const text = this.cut(context, picture.functions[id]?.name ?? '', room);
        if (!text)
          continue;
        context.fillStyle = look.labelCss[id] ?? look.inkCss;
        context.fillText(text, left + 4 * ratio, y + row * layout.rowHeight + layout.rowHeight / 2);
      }
  }

  /** Lanes that are one bar: the name of a call whose inner calls are drawn over it soon after its begin would lie under theirs. */
  private covered(lane: Tile['lanes'][number], call: number, room: number): boolean {
    const next = call + 1;
    return next < lane.count && lane.callDepth![next]! > lane.callDepth![call]! && lane.begin![next]! - lane.begin![call]! < 3 * room;
  }

  /** As much of a name as there is room for; "": too little to tell it by. */
  cut(context: OffscreenCanvasRenderingContext2D | CanvasRenderingContext2D, name: string, width: number): string {
    let full = this.widths.get(name);
    if (full === undefined) {
      full = context.measureText(name).width;
      this.widths.set(name, full);
    }
    if (full <= width)
      return name;
    const letters = Math.floor(name.length * width / full) - 1;
    return letters >= Math.max(3, Math.min(6, name.length / 2)) ? name.slice(0, letters) + '…' : '';
  }

  private collectives(strip: Strip, tile: Tile, first: number, last: number, scale: number, look: Look): void {
    const { context } = strip, { layout } = look, x = (time: number) => (time - tile.from) * scale, put = (at: number, y: number) => context.lineTo(at, y);
    context.fillStyle = look.messageCss;
    const shown = thinned(tile.collectives, strip.width);
    context.globalAlpha = shadeOf(shown.length, strip.width);
    for (const one of shown) {
      let smallest = Infinity, largest = -1;
      for (let i = 0; i < one.lanes.length; i++) {
        smallest = Math.min(smallest, one.lanes[i]!);
        largest = Math.max(largest, one.lanes[i]!);
      }
      if (largest < first || smallest >= last || one.lanes.length < 2)
        continue;
      context.beginPath();
      outline(one, layout, x, layout.tops[first]!, put);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  private messages(strip: Strip, tile: Tile, first: number, last: number, scale: number, look: Look): void {
    const { context } = strip, { layout } = look, all = tile.messages, top = layout.tops[first]!;
    const count = all.length / MESSAGE_FIELDS, many = count > 400;
    let lines = 0;
    context.strokeStyle = look.messageCss;
    context.lineWidth = many ? Math.min(1, 0.6 * look.ratio) : 0.9 * look.ratio; // wider than a pixel, those over each other would not add up
    context.beginPath();
    for (let i = 0; i < count; i++) {
      const from = all[i * MESSAGE_FIELDS]!, to = all[i * MESSAGE_FIELDS + 1]!;
      if (Math.max(from, to) < first || Math.min(from, to) >= last)
        continue;
      lines++;
      context.moveTo((all[i * MESSAGE_FIELDS + 2]! - tile.from) * scale, laneMiddle(layout, from) - top);
      context.lineTo((all[i * MESSAGE_FIELDS + 3]! - tile.from) * scale, laneMiddle(layout, to) - top);
    }
    context.globalAlpha = messageShade(lines * tile.messageStep, lines, strip.width / look.ratio);
    context.stroke();
    if (layout.rowHeight >= 6 * look.ratio && count <= strip.width / 8) { // where they arrive
      const size = Math.min(4, layout.rowHeight / 4 / look.ratio + 1) * look.ratio;
      context.fillStyle = look.messageCss;
      for (let i = 0; i < count; i++) {
        const to = all[i * MESSAGE_FIELDS + 1]!;
        if (to >= first && to < last)
          context.fillRect((all[i * MESSAGE_FIELDS + 3]! - tile.from) * scale - size / 2, laneMiddle(layout, to) - top - size / 2, size, size);
      }
    }
    context.globalAlpha = 1;
  }
}
