// SPDX-License-Identifier: Apache-2.0
// The call tree as nested boxes: the outermost on top, as wide as their time. Pure.

/** parent: the number of a node before this one, or -1. */
export interface TreeNode { function: string; class: string; parent: number; calls: number; total_ns: number; self_ns: number }

export interface Box { node: number; depth: number; /** Shares of the chosen node's time. */ from: number; to: number }

export function childrenOf(nodes: readonly TreeNode[]): number[][] {
  const children: number[][] = nodes.map(() => []);
  nodes.forEach((node, i) => {
    if (node.parent >= 0 && node.parent < i)
      children[node.parent]!.push(i);
  });
  for (const list of children)
    list.sort((a, b) => nodes[b]!.total_ns - nodes[a]!.total_ns);
  return children;
}

/** From the root of all down to a node. */
export function pathTo(nodes: readonly TreeNode[], node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0 && path.length <= nodes.length; at = nodes[at]!.parent)
    path.unshift(at);
  return path;
}

/** The tree without these nodes and what they call: their callers are shorter by them. Each node keeps its place in the list; `gone` says
 * which are left out, and count for nothing. `time`: of all that is left out. */
export function without(nodes: readonly TreeNode[], out: (name: string) => boolean): { nodes: TreeNode[]; gone: Uint8Array; time: number } {
  const gone = new Uint8Array(nodes.length), shorter = new Float64Array(nodes.length);
  let time = 0;
  nodes.forEach((node, i) => {
    const below = node.parent >= 0 && gone[node.parent] === 1;
    gone[i] = below || out(node.function) ? 1 : 0;
    if (!gone[i] || below)
      return;
    time += node.total_ns;
    for (let at = node.parent; at >= 0; at = nodes[at]!.parent)
      shorter[at] = shorter[at]! + node.total_ns;
  });
  return { gone, time, nodes: nodes.map((node, i) => gone[i] ? { ...node, calls: 0, total_ns: 0, self_ns: 0 } : { ...node, total_ns: Math.max(0, node.total_ns - shorter[i]!) }) };
}

/** Boxes of a node and what it calls; -1: of all roots. Those narrower than `least` of the whole are left out with what is in them. */
export function boxesOf(nodes: readonly TreeNode[], children: readonly number[][], focus: number, least: number): Box[] {
  const boxes: Box[] = [], roots = nodes.flatMap((node, i) => node.parent < 0 ? [i] : []).sort((a, b) => nodes[b]!.total_ns - nodes[a]!.total_ns);
  const all = focus < 0 ? roots.reduce((sum, i) => sum + nodes[i]!.total_ns, 0) : nodes[focus]!.total_ns;
  if (!(all > 0))
    return [];
  const work: { list: readonly number[]; depth: number; from: number }[] = [{ list: focus < 0 ? roots : [focus], depth: 0, from: 0 }];
  while (work.length) {
    const { list, depth, from } = work.pop()!;
    let at = from;
    for (const node of list) {
      const to = at + nodes[node]!.total_ns / all;
      if (to - at >= least) {
        boxes.push({ node, depth, from: at, to: Math.min(1, to) });
        work.push({ list: children[node]!, depth: depth + 1, from: at });
      }
      at = to;
    }
  }
  return boxes;
}

export function boxAt(boxes: readonly Box[], share: number, depth: number): Box | undefined {
  return boxes.find(box => box.depth === depth && box.from <= share && share < box.to);
}

/** How much of all a search finds: calls inside of what is found count once. */
export function foundTime(nodes: readonly TreeNode[], found: ReadonlySet<number>): number {
  let sum = 0;
  const inside = new Uint8Array(nodes.length);
  nodes.forEach((node, i) => {
    inside[i] = node.parent >= 0 && (inside[node.parent] || found.has(node.parent)) ? 1 : 0;
    if (found.has(i) && !inside[i])
      sum += node.total_ns;
  });
  return sum;
}
