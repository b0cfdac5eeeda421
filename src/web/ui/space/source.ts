// SPDX-License-Identifier: Apache-2.0
// What the server answers of a job's picture, with types (doc/reference/api.json).
import { ask, jobPath, query, useAnswer } from '../api';
import type { Picture, Tile } from './data';
import { fillOutside } from './data';
import type { Decoded, Undecoded } from './decoder';
import { LANES_EACH, TileCache } from './tiles';

export interface Sum { id: number; name: string; calls: number; total_ns: number; self_ns: number }
export interface Selection {
  functions: Sum[]; classes: { class: string; calls: number; total_ns: number }[]; messages: { count: number; bytes: number };
}
export interface Found { lane: number; begin: number; end: number; depth: number; function: number }
/** complete: there are no more; else they go on from next_ns. */
export interface Search { calls: Found[]; complete?: boolean; next_ns?: number }
export interface Named { name: string; value: string }
/** With `values=1`. */
export interface ValuedCall extends Found { arguments: Named[]; result: string | null }
export interface ValuedSearch extends Search { calls: ValuedCall[] }

/** Asked again until it is complete: when the last answer has come, however long that took. */
export const usePicture = (id: string) => useAnswer<Picture>(jobPath(id, 'picture'), picture => picture.complete ? 0 : 1.5);

let worker: Worker | null = null, asked = 0;
const waiting = new Map<number, { take: (tile: Tile) => void; fail: (error: Error) => void }>();

function decoder(): Worker {
  if (worker)
    return worker;
  worker = new Worker('tiles.js', { type: 'module' });
  worker.onmessage = ({ data }: MessageEvent<Decoded>) => {
    const one = waiting.get(data.number);
    waiting.delete(data.number);
    if (data.tile)
      one?.take(data.tile);
    else
      one?.fail(new Error(data.error));
  };
  worker.onerror = () => {
    worker = null; // the next tile tries again
    for (const one of waiting.values())
      one.fail(new Error('The part of the pages that reads tiles (tiles.js) did not start: load the page again.'));
    waiting.clear();
  };
  return worker;
}

/** Elsewhere, so frames go on meanwhile. */
function decode(bytes: ArrayBuffer, columns: number): Promise<Tile> {
  const number = ++asked;
  decoder().postMessage({ number, bytes, columns } satisfies Undecoded, [bytes]);
  return new Promise((take, fail) => waiting.set(number, { take, fail }));
}

export function tilesOf(id: string, picture: () => Picture): TileCache<Tile> {
  decoder(); // it starts while the first tiles are asked for
  return new TileCache<Tile>(async (tile, signal) => {
    const now = picture(), first = tile.block * LANES_EACH, last = Math.min(now.lanes.length, first + LANES_EACH) - 1;
    const path = jobPath(id, `tiles/${tile.level}/${tile.index}`) + query({ lanes: `${first}-${last}` });
    return fillOutside(await decode(await ask<ArrayBuffer>(path, { signal }, answer => answer.arrayBuffer()), now.columns), now);
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
