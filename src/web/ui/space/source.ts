// SPDX-License-Identifier: Apache-2.0
// What the server answers of a job's picture, with types (doc/explain/pages.md, "The picture").
import { ask, jobPath, query } from '../api';
import type { Picture, Tile } from './data';
import { decodeTile } from './data';
import { LANES_EACH, TileCache } from './tiles';

export interface Sum { id: number; name: string; calls: number; total_ns: number; self_ns: number }
export interface Selection {
  functions: Sum[]; classes: { class: string; calls: number; total_ns: number }[]; messages: { count: number; bytes: number };
}
export interface Found { lane: number; begin: number; end: number; depth: number; function: number }
/** complete: there are no more; else they go on from next_ns. */
export interface Search { calls: Found[]; complete?: boolean; next_ns?: number }

export function tilesOf(id: string, picture: () => Picture): TileCache<Tile> {
  return new TileCache<Tile>(async (tile, signal) => {
    const now = picture(), first = tile.block * LANES_EACH, last = Math.min(now.lanes.length, first + LANES_EACH) - 1;
    const path = jobPath(id, `tiles/${tile.level}/${tile.index}`) + query({ lanes: `${first}-${last}` });
    return decodeTile(await ask<unknown>(path, { signal }), now.columns, number => now.functions[number]?.name ?? '');
  });
}

/** "0-3,7" of a set of lanes. */
export function laneList(lanes: ReadonlySet<number>): string {
  const sorted = [...lanes].sort((a, b) => a - b), out: string[] = [];
  for (let i = 0; i < sorted.length;) {
    let end = i;
    while (sorted[end + 1] === sorted[end]! + 1)
      end++;
    out.push(end > i ? `${sorted[i]}-${sorted[end]}` : `${sorted[i]}`);
    i = end + 1;
  }
  return out.join(',');
}

export function lanesOf(text: string, count: number): Set<number> {
  const out = new Set<number>();
  for (const part of text.split(',')) {
    const [first, last] = part.split('-').map(Number);
    if (part && first !== undefined && Number.isInteger(first))
      for (let lane = first; lane <= Math.min(last ?? first, count - 1); lane++)
        out.add(lane);
  }
  return out;
}
