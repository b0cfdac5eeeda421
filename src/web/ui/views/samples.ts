// SPDX-License-Identifier: Apache-2.0
// The profile of a job, by samples: what api/jobs/ID/samples says, as nodes of a call tree and rows of a table. Pure.
import { base } from '../format';
import type { TreeNode } from './flame';

/** key: by which it is asked for. */
export interface SampledProcess { key: string; node: string; pid: number; rank: number | null; world: number | null; name: string; self_ns: number; waiting_ns: number }
/** process: the key of its process. */
export interface SampledThread { key: string; process: string; tid: number; name: string; self_ns: number; waiting_ns: number }
export interface SampledFunction {
  /** null: only the module is known, if at all. */
  name: string | null;
  module: string; file: string; line: number; language: string; self_ns: number; total_ns: number; waiting_ns: number; waits: Record<string, number>; processes: number;
}
/** parent, function or program, self_ns, total_ns, own waiting_ns, waiting_ns */
export type SampledNode = [number, number | string, number, number, number, number];
/** self_ns, waiting_ns: of what was asked for; cpu_ns: all there was of the job. refused: why there are times of processes in place of samples. spans: on a processor and waiting, in each
 * span of so many nanoseconds from the start of the job on. */
export interface Samples {
  refused: string | null; span_ns: number; spans: [number, number][];
  hz: number; kernel: boolean; lost: number; samples: number; cpu_ns: number; self_ns: number; waiting_ns: number; process_count: number; processes: SampledProcess[]; programs: string[]; threads: SampledThread[];
  functions: SampledFunction[]; nodes: SampledNode[]; left_out: number;
}
export type Part = 'cpu' | 'waiting';

/** As scry report calls it. */
export function nameOf(one: Pick<SampledFunction, 'name' | 'module' | 'language'>): string {
  if (one.language === 'kernel')
    return 'the kernel';
  return one.name ?? (one.module && !/^(\/\/)?anon/.test(base(one.module)) ? `in ${base(one.module)}` : 'code of no file');
}

/** Those with time of that part; each keeps its place in the list. */
export function treeOf(samples: Samples, part: Part): TreeNode[] {
  const at = part === 'cpu' ? 2 : 4, names = samples.functions.map(nameOf);
  return samples.nodes.map(node => ({ function: typeof node[1] === 'string' ? node[1] : names[node[1]] ?? '?', class: 'compute', parent: node[0], calls: 0, self_ns: node[at] as number, total_ns: node[at + 1] as number }));
}

/** A text for each node that stays the same while the job goes on: of the names of its path. */
export function keysOf(nodes: readonly TreeNode[]): string[] {
  const hashes: number[] = [];
  return nodes.map((node, i) => {
    let hash = node.parent >= 0 ? hashes[node.parent]! : 0x811c9dc5;
    for (const letter of `\n${node.function}`)
      hash = Math.imul(hash ^ letter.codePointAt(0)!, 0x01000193);
    hashes[i] = hash;
    return (hash >>> 0).toString(36);
  });
}

/** "sleep 1.20 s, a pipe 0.40 s": what was waited for, the longest first. */
export const waitsText = (waits: Record<string, number>, text: (ns: number) => string): string =>
  Object.entries(waits).sort(([, a], [, b]) => b - a).map(([what, ns]) => `${what} ${text(ns)}`).join(', ');
