// SPDX-License-Identifier: Apache-2.0
// The communication matrix as a field of amounts. Pure.

export interface Pair { from: number; to: number; messages: number; bytes: number; received_messages: number | null; received_bytes: number | null; one_sided: number; one_sided_bytes: number }
export interface Field { cells: number; ranksEach: number; values: Float64Array; most: number }

/** The pairs of one program, and how many ranks it has at least. */
export function pairsOf(matrix: readonly (Omit<Pair, 'from' | 'to'> & { world: number; from: number | null; to: number | null })[], world: number): { pairs: Pair[]; ranks: number } {
  const pairs: Pair[] = [];
  let ranks = 0;
  for (const pair of matrix)
    if (pair.world === world && pair.from !== null && pair.to !== null) {
      pairs.push({ ...pair, from: pair.from, to: pair.to });
      ranks = Math.max(ranks, pair.from + 1, pair.to + 1);
    }
  return { pairs, ranks };
}

/** "4-19": the ranks that are looked at. */
export function rangeOf(text: string, ranks: number): { from: number; to: number } {
  const [from, to] = text.split('-').map(Number);
  return text && from !== undefined && to !== undefined && from >= 0 && to > from && to < ranks ? { from, to } : { from: 0, to: Math.max(0, ranks - 1) };
}

/** Ranks from..to in at most `most` fields a side. */
export function fieldOf(pairs: readonly Pair[], from: number, to: number, what: keyof Pair, most: number): Field {
  const ranks = to - from + 1, ranksEach = Math.max(1, Math.ceil(ranks / most)), cells = Math.max(1, Math.ceil(ranks / ranksEach));
  const values = new Float64Array(cells * cells);
  let greatest = 0;
  for (const pair of pairs) {
    if (pair.from < from || pair.from > to || pair.to < from || pair.to > to)
      continue;
    const at = Math.floor((pair.from - from) / ranksEach) * cells + Math.floor((pair.to - from) / ranksEach);
    values[at]! += pair[what] ?? 0; // null: not known, which the table says
    greatest = Math.max(greatest, values[at]!);
  }
  return { cells, ranksEach, values, most: greatest };
}

/** [row, column] at a point of the square. */
export function cellAt(x: number, y: number, side: number, cells: number): [number, number] | null {
  return x < 0 || y < 0 || x >= side || y >= side ? null : [Math.floor(y / side * cells), Math.floor(x / side * cells)];
}
