// SPDX-License-Identifier: Apache-2.0
// What one frame of the diagram shows, and drawing it. Coordinates are pixels of the device; the time axis stands above the lanes, which
// scroll under it. Frames make no objects: all that they need is in the scene, in tiles and in strips.
import type { Picture, Tile } from './data';
import { callAt, callOf, MESSAGE_FIELDS } from './data';
import type { Layout } from './layout';
import { laneAt, laneMiddle, rowAt } from './layout';
import type { Look } from './strips';
import { STRIP_LANES, Strips } from './strips';
import type { Ticks } from './ticks';
import { ticksOf } from './ticks';
import type { TileCache } from './tiles';
import { LANES_EACH, levelFor, tileRange, tilesWanted } from './tiles';
import type { Span } from './window';

export interface Mark { lane: number; begin: number; end: number; depth: number; /** It has not ended. */ open?: boolean; /** It goes on behind what is known here. */ beyond?: boolean }

export interface Scene {
  picture: Picture; whole: Span; view: Span; look: Look; tiles: TileCache<Tile>;
  width: number; height: number; axis: number; scroll: number;
  /** Window that is being or was chosen. */
  selection: Span | null; selectedLanes: ReadonlySet<number>;
  hover: Mark | null; found: readonly Mark[]; current: Mark | null; message: number[] | null;
  colours: { ink: string; soft: string; grid: string; background: string; accent: string; found: string; veil: string };
}

export interface Painted { complete: boolean; loading: boolean }

export class Drawing {
  readonly strips = new Strips();
  private ticks: Ticks | null = null;
  private tickFrom = NaN;
  private tickTo = NaN;
  private wantedFor = '';

  constructor(private readonly context: CanvasRenderingContext2D) {}

  static x(scene: Scene, at: number): number {
    return (at - scene.view.from) / (scene.view.to - scene.view.from) * scene.width;
  }

  static time(scene: Scene, x: number): number {
    return scene.view.from + x / scene.width * (scene.view.to - scene.view.from);
  }

  level(scene: Scene): number {
    return levelFor(scene.whole, scene.view, scene.width, scene.picture.columns, scene.picture.levels);
  }

  /** Blocks of lanes that are seen. */
  blocks(scene: Scene): number[] {
    const layout = scene.look.layout, count = layout.tops.length - 1;
    if (count < 1)
      return [];
    const first = Math.max(0, laneAt(layout, Math.max(0, scene.scroll)));
    const bottom = laneAt(layout, scene.scroll + scene.height - scene.axis);
    const last = bottom < 0 ? count - 1 : bottom, out: number[] = [];
    for (let block = Math.floor(first / LANES_EACH); block <= Math.floor(last / LANES_EACH); block++)
      out.push(block);
    return out;
  }

  want(scene: Scene): void {
    const level = this.level(scene), blocks = this.blocks(scene), [first, last] = tileRange(scene.whole, scene.view, level);
    const key = `${level}/${first}-${last}/${blocks.join()}/${scene.picture.to_ns}`;
    if (key === this.wantedFor)
      return;
    this.wantedFor = key;
    scene.tiles.want(tilesWanted(scene.whole, scene.view, level, blocks, Math.ceil(scene.picture.lanes.length / LANES_EACH)));
  }

  forget(): void {
    this.wantedFor = '';
  }

  /** `budget`: so many strips may be painted anew. */
  frame(scene: Scene, budget: number): Painted {
    const { context } = this;
    context.fillStyle = scene.colours.background;
    context.fillRect(0, 0, scene.width, scene.height);
    this.want(scene);
    const painted = this.lanes(scene, budget);
    if (scene.look.layout.rowHeight >= 11 * scene.look.ratio)
      this.names(scene);
    this.overlay(scene);
    this.axis(scene);
    return painted;
  }

  private lanes(scene: Scene, budget: number): Painted {
    const { look, whole, view } = scene, { layout } = look, level = this.level(scene), parts = 2 ** level;
    const [first, last] = tileRange(whole, view, level), count = layout.tops.length - 1;
    const perNs = scene.width / (view.to - view.from), origin = Math.round((view.from - whole.from) * perNs);
    const tileNs = (whole.to - whole.from) / parts;
    const painted = { complete: true, loading: false };
    if (count < 1)
      return painted;
    const bottom = laneAt(layout, scene.scroll + scene.height), end = bottom < 0 ? count : bottom + 1;
    const start = Math.floor(Math.max(0, laneAt(layout, Math.max(0, scene.scroll))) / STRIP_LANES) * STRIP_LANES;
    this.context.imageSmoothingEnabled = false;
    for (let lane = start; lane < end; lane += STRIP_LANES)
      for (let index = first; index <= last; index++) {
        const left = Math.round(index * tileNs * perNs), right = Math.round((index + 1) * tileNs * perNs);
        const stop = Math.min(count, lane + STRIP_LANES), y = Math.round(layout.tops[lane]! - scene.scroll) + scene.axis;
        const tile = scene.tiles.get(level, index, Math.floor(lane / LANES_EACH));
        if (!tile) {
          painted.loading = true;
          this.stand(scene, level, index, lane, stop, left - origin, y, right - left);
          continue;
        }
        const key = `${level}/${index}/${lane}`;
        let strip = this.strips.get(key);
        const width = Math.max(1, right - left);
        if (!this.strips.fresh(strip, tile, width, look)) {
          if (budget > 0) {
            strip = this.strips.paint(key, tile, scene.picture, lane, stop, width, look);
            budget--;
          } else
            painted.complete = false;
        }
        if (strip)
          this.context.drawImage(strip.canvas, 0, 0, strip.width, strip.height, left - origin, y, width, Math.round(layout.tops[stop]! - layout.tops[lane]!));
        else
          this.stand(scene, level, index, lane, stop, left - origin, y, width);
      }
    return painted;
  }

  /** Until a tile is there: the part of a coarser one, or of finer ones, if a strip of it is at hand. */
  private stand(scene: Scene, level: number, index: number, lane: number, stop: number, x: number, y: number, width: number): void {
    const { layout } = scene.look, height = Math.round(layout.tops[stop]! - layout.tops[lane]!);
    for (let up = 1; up <= level; up++) {
      const strip = this.strips.get(`${level - up}/${Math.floor(index / 2 ** up)}/${lane}`);
      if (!strip || strip.tile === null)
        continue;
      const part = strip.width / 2 ** up;
      this.context.drawImage(strip.canvas, (index % 2 ** up) * part, 0, Math.max(0.01, part), strip.height, x, y, width, height);
      return;
    }
    for (let half = 0; half < 2; half++) {
      const strip = this.strips.get(`${level + 1}/${index * 2 + half}/${lane}`);
      if (strip)
        this.context.drawImage(strip.canvas, 0, 0, strip.width, strip.height, x + half * width / 2, y, width / 2, height);
    }
  }

  private readonly ended = { end: 0, whole: false, open: false };

  /** Until when a call goes that is in this tile, which knows it up to its own end only: as far as the next tiles are at hand. `whole`: that is its end.
   * The answer is there until the next question. */
  private endOf(scene: Scene, level: number, index: number, lane: number, begin: number, depth: number): Readonly<Drawing['ended']> {
    const { ended } = this, block = Math.floor(lane / LANES_EACH);
    ended.whole = false;
    for (let next = index; next < 2 ** level; next++) {
      const tile = scene.tiles.get(level, next, block), one = tile?.lanes[lane % LANES_EACH], call = one?.begin ? callOf(one, begin, depth) : -1;
      if (call < 0)
        return ended;
      ended.end = one!.end![call]!;
      ended.open = one!.callOpen![call]! > 0;
      if (ended.end < tile!.to)
        break;
    }
    ended.whole = true;
    return ended;
  }

  /** Calls that began before the window have their name at its edge. */
  private names(scene: Scene): void {
    const { context } = this, { layout, ratio } = scene.look, level = this.level(scene), parts = 2 ** level;
    const perNs = scene.width / (scene.view.to - scene.view.from), edge = scene.view.from + 1 / perNs; // a pixel in: a tile that ends at the edge has nothing to name
    const index = Math.min(parts - 1, Math.max(0, Math.floor((edge - scene.whole.from) / (scene.whole.to - scene.whole.from) * parts)));
    context.font = scene.look.font;
    context.textBaseline = 'middle';
    for (let i = Math.max(0, laneAt(layout, Math.max(0, scene.scroll))); i + 1 < layout.tops.length && layout.tops[i]! < scene.scroll + scene.height; i++) {
      const lane = scene.tiles.get(level, index, Math.floor(i / LANES_EACH))?.lanes[i % LANES_EACH];
      if (!lane?.begin)
        continue;
      for (let k = 0; k < lane.count; k++) {
        const row = layout.stacked ? lane.callDepth![k]! : 0, id = lane.callFunction![k]!, begin = lane.begin![k]!;
        const room = (begin < scene.view.from ? this.endOf(scene, level, index, i, begin, lane.callDepth![k]!).end - scene.view.from : 0) * perNs;
        if (id === scene.picture.outside || begin >= scene.view.from || (scene.view.from - begin) * perNs < 8 * ratio || room < 30 * ratio || row >= layout.rows[i]!)
          continue;
        if (!layout.stacked && callAt(lane, edge, null) !== k)
          continue;
        const text = this.strips.cut(context, scene.picture.functions[id]?.name ?? '', room - 8 * ratio);
        const y = layout.tops[i]! + row * layout.rowHeight - scene.scroll + scene.axis;
        context.fillStyle = scene.look.bars[id] ?? scene.colours.background;
        context.fillRect(0, y, Math.min(room, context.measureText(text).width + 10 * ratio), layout.rowHeight - (layout.stacked ? 1 : 0));
        context.fillStyle = scene.look.labelCss[id] ?? scene.look.inkCss;
        context.fillText(text, 4 * ratio, y + layout.rowHeight / 2);
      }
    }
  }

  private box(scene: Scene, mark: Mark, grow: number): void {
    const { layout } = scene.look, ratio = scene.look.ratio;
    const left = Math.max(-4, Drawing.x(scene, mark.begin)), right = Math.min(scene.width + 4, Drawing.x(scene, mark.end));
    const row = layout.stacked ? Math.min(mark.depth, layout.rows[mark.lane]! - 1) : 0;
    const y = layout.tops[mark.lane]! + row * layout.rowHeight - scene.scroll + scene.axis;
    this.context.strokeRect(left - grow, y - grow, Math.max(2 * ratio, right - left) + 2 * grow, layout.rowHeight + 2 * grow - (layout.stacked ? 1 : 0));
  }

  private overlay(scene: Scene): void {
    const { context } = this, { ratio, layout } = scene.look;
    if (scene.found.length) {
      context.strokeStyle = scene.colours.found;
      context.lineWidth = 1.5 * ratio;
      for (const mark of scene.found)
        if (mark.end >= scene.view.from && mark.begin <= scene.view.to)
          this.box(scene, mark, 0.5);
    }
    context.strokeStyle = scene.colours.accent;
    context.lineWidth = 2 * ratio;
    if (scene.current)
      this.box(scene, scene.current, 1.5 * ratio);
    if (scene.message) {
      const [from, to, sent, received] = scene.message as [number, number, number, number];
      context.beginPath();
      context.moveTo(Drawing.x(scene, sent), laneMiddle(layout, from) - scene.scroll + scene.axis);
      context.lineTo(Drawing.x(scene, received), laneMiddle(layout, to) - scene.scroll + scene.axis);
      context.stroke();
    }
    if (scene.hover) {
      context.strokeStyle = scene.colours.ink;
      context.lineWidth = 1.5 * ratio;
      this.box(scene, scene.hover, 0);
    }
    if (scene.selection) {
      const left = Drawing.x(scene, scene.selection.from), right = Drawing.x(scene, scene.selection.to);
      context.fillStyle = scene.colours.veil;
      context.fillRect(0, scene.axis, Math.max(0, left), scene.height);
      context.fillRect(right, scene.axis, Math.max(0, scene.width - right), scene.height);
      context.fillStyle = scene.colours.accent;
      context.fillRect(left - ratio, 0, ratio, scene.height);
      context.fillRect(right, 0, ratio, scene.height);
    }
  }

  private axis(scene: Scene): void {
    const { context } = this, { ratio } = scene.look;
    if (scene.view.from !== this.tickFrom || scene.view.to !== this.tickTo || !this.ticks) {
      this.ticks = ticksOf(scene.view.from, scene.view.to, Math.max(2, scene.width / ratio / 96));
      this.tickFrom = scene.view.from;
      this.tickTo = scene.view.to;
    }
    context.fillStyle = scene.colours.background;
    context.fillRect(0, 0, scene.width, scene.axis);
    context.font = scene.look.font;
    context.textBaseline = 'middle';
    const ticks = this.ticks, y = scene.axis / 2;
    const base = ticks.baseLabel ? ticks.baseLabel + ' ' : '', room = base ? context.measureText(base).width + 8 * ratio : 0;
    for (let i = 0; i < ticks.at.length; i++) {
      const x = Math.round(Drawing.x(scene, ticks.at[i]!));
      context.fillStyle = scene.colours.grid;
      context.fillRect(x, 0, ratio, scene.axis);
      if (x < room || x + 4 * ratio + context.measureText(ticks.labels[i]!).width > scene.width)
        continue;
      context.fillStyle = scene.colours.soft;
      context.fillText(ticks.labels[i]!, x + 4 * ratio, y);
    }
    if (base) {
      context.fillStyle = scene.colours.ink;
      context.fillText(base, 2 * ratio, y);
    }
    context.fillStyle = scene.colours.grid;
    context.fillRect(0, scene.axis - ratio, scene.width, ratio);
  }

  /** What is at a point: the call, or where there are too many, the function with most of that column. */
  at(scene: Scene, x: number, y: number): { lane: number; mark: Mark | null; id: number; share: number; time: number } | null {
    const { layout } = scene.look, lane = laneAt(layout, y - scene.axis + scene.scroll);
    if (y < scene.axis || lane < 0)
      return null;
    const time = Drawing.time(scene, x), depth = layout.stacked ? rowAt(layout, lane, y - scene.axis + scene.scroll) : null;
    const level = this.level(scene), parts = 2 ** level;
    const index = Math.min(parts - 1, Math.max(0, Math.floor((time - scene.whole.from) / (scene.whole.to - scene.whole.from) * parts)));
    const tile = scene.tiles.get(level, index, Math.floor(lane / LANES_EACH)), found = tile?.lanes[lane % LANES_EACH];
    const nothing = { lane, mark: null, id: -1, share: 0, time };
    if (!tile || !found)
      return nothing;
    if (!found.columnFunction) {
      const call = callAt(found, time, depth);
      if (call < 0)
        return nothing;
      if (found.callFunction![call] === scene.picture.outside) // of a gap that tiles have parts of nobody knows the ends
        return { ...nothing, id: scene.picture.outside!, share: 1 };
      const begin = found.begin![call]!, row = found.callDepth![call]!, { end, whole, open } = this.endOf(scene, level, index, lane, begin, row);
      return { lane, time, id: found.callFunction![call]!, share: 1, mark: { lane, begin, end, depth: row, open, beyond: !whole } };
    }
    const column = Math.min(found.columns - 1, Math.max(0, Math.floor((time - tile.from) / (tile.to - tile.from) * found.columns)));
    for (let d = depth ?? found.depth - 1; d >= (depth ?? 0); d--) {
      const cell = column * found.depth + d;
      if (d < found.depth && found.columnFunction[cell]! >= 0 && found.columnShare![cell]! > 0)
        return { lane, mark: null, id: found.columnFunction[cell]!, share: found.columnShare![cell]! / 255, time };
    }
    return nothing;
  }

  /** The message in sight that is nearest, as `far` has it, and nearer than `within`; its five fields. */
  private nearest(scene: Scene, within: number, far: (from: number, to: number, sent: number, received: number) => number): number[] | null {
    const level = this.level(scene), [first, last] = tileRange(scene.whole, scene.view, level);
    let best: number[] | null = null, least = within;
    for (const block of this.blocks(scene))
      for (let index = first; index <= last; index++) {
        const all = scene.tiles.get(level, index, block)?.messages;
        for (let i = 0; all && i < all.length; i += MESSAGE_FIELDS) {
          const away = far(all[i]!, all[i + 1]!, all[i + 2]!, all[i + 3]!);
          if (away < least) {
            least = away;
            best = Array.from(all.subarray(i, i + MESSAGE_FIELDS));
          }
        }
      }
    return best;
  }

  /** The message whose line is nearest, within some pixels. */
  messageAt(scene: Scene, x: number, y: number, within: number): number[] | null {
    const { layout } = scene.look, middle = (lane: number) => laneMiddle(layout, lane) - scene.scroll + scene.axis;
    return this.nearest(scene, within, (from, to, sent, received) => distance(x, y, Drawing.x(scene, sent), middle(from), Drawing.x(scene, received), middle(to)));
  }

  /** The message that begins or ends in this part of a lane, nearest to the middle of it. */
  messageOf(scene: Scene, lane: number, part: Span): number[] | null {
    const middle = (part.from + part.to) / 2, away = (time: number) => time < part.from || time > part.to ? Infinity : Math.abs(time - middle);
    return this.nearest(scene, Infinity, (from, to, sent, received) => Math.min(from === lane ? away(sent) : Infinity, to === lane ? away(received) : Infinity));
  }

  /** When the first call of this depth begins in a part of a lane; null: there is none, or single calls cannot be told apart at this scale. */
  beginIn(scene: Scene, lane: number, depth: number, part: Span): number | null {
    const level = this.level(scene), [first, last] = tileRange(scene.whole, scene.view, level);
    for (let index = first; index <= last; index++) {
      const one = scene.tiles.get(level, index, Math.floor(lane / LANES_EACH))?.lanes[lane % LANES_EACH];
      for (let i = 0; one?.begin && i < one.count; i++)
        if (one.callDepth![i] === depth && one.begin[i]! >= part.from && one.begin[i]! < part.to)
          return one.begin[i]!;
    }
    return null;
  }
}

export function distance(x: number, y: number, x0: number, y0: number, x1: number, y1: number): number {
  const dx = x1 - x0, dy = y1 - y0, length = dx * dx + dy * dy;
  const t = length ? Math.max(0, Math.min(1, ((x - x0) * dx + (y - y0) * dy) / length)) : 0;
  return Math.hypot(x - x0 - t * dx, y - y0 - t * dy);
}

/** A layout in pixels of the device. */
export function scaled(layout: Layout, ratio: number): Layout {
  return ratio === 1 ? layout : { ...layout, tops: layout.tops.map(top => top * ratio), rowHeight: layout.rowHeight * ratio, gap: layout.gap * ratio };
}
