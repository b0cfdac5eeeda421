// SPDX-License-Identifier: Apache-2.0
// Tiles: which ones a window needs, and a cache of them that asks for what is seen first, then for what may be seen next. What nobody wants
// any more is not waited for. A tile that could not be had is asked for again after a while, each time a longer one.
import type { Span } from './window';

/** Lanes of a tile that is asked for: few enough that reading its answer takes less than a frame. */
export const LANES_EACH = 32;

export interface TileId { level: number; index: number; block: number }

/** The level at which a column of a tile is about one pixel. */
export function levelFor(whole: Span, view: Span, pixels: number, columns: number, levels: number): number {
  const parts = (whole.to - whole.from) / Math.max(1, view.to - view.from) * pixels / columns;
  return Math.max(0, Math.min(levels - 1, Math.ceil(Math.log2(Math.max(1, parts)) - 0.001)));
}

export function tileSpan(whole: Span, level: number, index: number): Span {
  const width = (whole.to - whole.from) / 2 ** level;
  return { from: whole.from + index * width, to: whole.from + (index + 1) * width };
}

/** First and last index that a window touches. */
export function tileRange(whole: Span, view: Span, level: number): [number, number] {
  const width = (whole.to - whole.from) / 2 ** level, last = 2 ** level - 1;
  const first = Math.max(0, Math.min(last, Math.floor((view.from - whole.from) / width)));
  return [first, Math.max(first, Math.min(last, Math.ceil((view.to - whole.from) / width) - 1))];
}

/** Blocks of lanes that the small picture of the whole shows. */
export const WHOLE_BLOCKS = 16;

/** What to ask for, the most urgent first: what is seen, the whole, what is beside it, what is above (for zooming out). */
export function tilesWanted(whole: Span, view: Span, level: number, blocks: readonly number[], allBlocks: number): TileId[] {
  const [first, last] = tileRange(whole, view, level), wanted: TileId[] = [];
  for (const block of blocks)
    for (let index = first; index <= last; index++)
      wanted.push({ level, index, block });
  for (let block = 0; block < Math.min(allBlocks, WHOLE_BLOCKS) && level > 0; block++)
    wanted.push({ level: 0, index: 0, block });
  for (const block of blocks) {
    if (first > 0)
      wanted.push({ level, index: first - 1, block });
    if (last < 2 ** level - 1)
      wanted.push({ level, index: last + 1, block });
    if (level > 0) {
      const [up, upLast] = tileRange(whole, view, level - 1);
      for (let index = up; index <= upLast; index++)
        wanted.push({ level: level - 1, index, block });
    }
  }
  return wanted;
}

export function keyOf(id: TileId): string {
  return `${id.level}/${id.index}/${id.block}`;
}

interface Entry<T> { tile: T | null; /** How often, since it was there. */ failed: number; rests: boolean; abort: AbortController | null; stale: boolean }

export class TileCache<T> {
  private readonly entries = new Map<string, Entry<T>>();
  private wanted: TileId[] = [];
  private busy = 0;
  /** Called when a tile has come, or could not be had. */
  onchange: (error: unknown) => void = () => {};

  constructor(private readonly load: (id: TileId, signal: AbortSignal) => Promise<T>, private readonly most = 400,
    private readonly atOnce = 6, private readonly retryMs = 3000) {}

  get(level: number, index: number, block: number): T | null {
    const key = `${level}/${index}/${block}`, entry = this.entries.get(key);
    if (!entry)
      return null;
    this.entries.delete(key); // the last ones are those that were used last
    this.entries.set(key, entry);
    return entry.tile;
  }

  get loading(): number {
    return this.busy;
  }

  want(ids: TileId[]): void {
    const keys = new Set(ids.map(keyOf));
    for (const [key, entry] of this.entries)
      if (entry.abort && !keys.has(key)) {
        entry.abort.abort();
        entry.abort = null;
        entry.stale = true;
        if (!entry.tile)
          this.entries.delete(key);
      }
    this.wanted = ids;
    this.start();
  }

  /** What is there is shown until the same tiles have come again. */
  renew(): void {
    for (const entry of this.entries.values())
      entry.stale = true;
  }

  clear(): void {
    for (const entry of this.entries.values())
      entry.abort?.abort();
    this.entries.clear();
    this.wanted = [];
  }

  private start(): void {
    for (const id of this.wanted) {
      if (this.busy >= this.atOnce)
        return;
      const key = keyOf(id), entry = this.entries.get(key);
      if (entry && (entry.abort || entry.rests || entry.tile && !entry.stale))
        continue;
      this.ask(id, key);
    }
  }

  private ask(id: TileId, key: string): void {
    const abort = new AbortController(), before = this.entries.get(key);
    const entry: Entry<T> = { tile: before?.tile ?? null, failed: before?.failed ?? 0, rests: false, abort, stale: false };
    this.entries.set(key, entry);
    this.busy++;
    this.load(id, abort.signal).then(tile => {
      entry.tile = tile;
      entry.failed = 0;
      return null;
    }, (error: unknown) => {
      if (!abort.signal.aborted)
        this.rest(entry);
      return error;
    }).then(error => {
      if (entry.abort === abort)
        entry.abort = null;
      this.busy--;
      this.trim();
      if (!abort.signal.aborted)
        this.onchange(error);
      this.start();
    });
  }

  private rest(entry: Entry<T>): void {
    entry.rests = entry.stale = true;
    setTimeout(() => {
      entry.rests = false;
      this.start();
    }, this.retryMs * 2 ** Math.min(4, entry.failed++));
  }

  private trim(): void {
    for (const [key, entry] of this.entries) {
      if (this.entries.size <= this.most)
        return;
      if (!entry.abort)
        this.entries.delete(key);
    }
  }
}
