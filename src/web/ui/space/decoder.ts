// SPDX-License-Identifier: Apache-2.0
// A thread of its own (a worker, bundled as tiles.js) that makes tiles of answers: a tile has up to a hundred thousand numbers as text, and reading
// them beside the frames would be seen as a jerk.
import { buffersOf, decodeTile } from './data';
import type { Tile } from './data';

export interface Undecoded { number: number; bytes: ArrayBuffer; columns: number }
export interface Decoded { number: number; tile: Tile | null; error: string }

addEventListener('message', ({ data: { number, bytes, columns } }: MessageEvent<Undecoded>) => {
  try {
    const tile = decodeTile(JSON.parse(new TextDecoder().decode(bytes)), columns);
    postMessage({ number, tile, error: '' } satisfies Decoded, { transfer: buffersOf(tile) });
  } catch (error) {
    postMessage({ number, tile: null, error: String(error) } satisfies Decoded);
  }
});
