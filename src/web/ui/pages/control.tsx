// SPDX-License-Identifier: Apache-2.0
// Changes to a running job: recording, tracing, a snapshot, signals. Shown to those who have the right to.
import { useState } from 'preact/hooks';
import { ask, jobPath, tell, type Snapshot } from '../api';
import { Danger, More, Notice } from '../design/parts';
import { useDoing } from '../doing';
import * as format from '../format';
import { useNarrow } from '../pictures';

const signals: [string, string][] = [['TERM', 'asks it to end'], ['INT', 'as Ctrl-C'], ['HUP', 'for what the program does with it'], ['USR1', 'the same'], ['USR2', 'the same'], ['STOP', 'stops it'], ['CONT', 'goes on'], ['KILL', 'ends it at once; nothing is saved']];

export function Control({ id }: { id: string }) {
  const { said, busy, doIt } = useDoing(), narrow = useNarrow();
  const [trace, setTrace] = useState('');
  const [signal, setSignal] = useState('TERM');
  const [snapshot, setSnapshot] = useState<Snapshot>();
  const set = (done: string, settings: Record<string, string>) => doIt(async () => (await tell('POST', jobPath(id, 'set'), settings), done));
  const bar = (
    <div class="bar">
      <form class="bar" onSubmit={(e) => (e.preventDefault(), set(`It traces ${trace || 'all functions of the program'}.`, { trace }))}>
        <label class="bar">
          Trace
          <input type="text" class="mono" placeholder="fn:solve fn:do_*" value={trace} onInput={(e) => setTrace(e.currentTarget.value)} />
        </label>
        <button disabled={busy}>Set</button>
      </form>
      <button type="button" disabled={busy} onClick={() => set('Nothing is recorded until it is on again.', { on: 'no' })}>Recording off</button>
      <button type="button" disabled={busy} onClick={() => set('It records.', { on: 'yes' })}>On</button>
      <button type="button" disabled={busy} onClick={() => doIt(async () => (setSnapshot(await ask<Snapshot>(jobPath(id, 'snapshot'))), 'This is where all threads are.'))}>
        Snapshot of all stacks
      </button>
      <label class="bar">
        Signal
        <select value={signal} onChange={(e) => setSignal(e.currentTarget.value)}>
          {signals.map(([n, what]) => <option key={n} value={n}>SIG{n}: {what}</option>)}
        </select>
      </label>
      <Danger button="Send …" title={`Send SIG${signal} to the job?`} sure={`Send SIG${signal}`} disabled={busy} act={() => doIt(async () => (await tell('POST', jobPath(id, 'signal'), { signal }), `SIG${signal} was sent.`))}>
        It gets it at once, and the job may end.
      </Danger>
    </div>
  );
  return (
    <section class="panel no-print" aria-labelledby="control-title">
      <h2 id="control-title">Control</h2>
      {narrow ? <details><summary>Trace, snapshot, signal</summary>{bar}</details> : bar}
      {said && <Notice live tone={said.tone} title={said.text} />}
      {snapshot && <Stacks of={snapshot} />}
    </section>
  );
}

type Node = Snapshot['nodes'][number];
/** The tree from its roots down. Functions that only call one other, in the same threads, stand in one row with it. */
export function stackRows(nodes: readonly Node[]): { depth: number; chain: Node[] }[] {
  const below = new Map<number, Node[]>();
  for (const node of nodes) below.set(node.parent, [...(below.get(node.parent) ?? []), node]);
  const rows: { depth: number; chain: Node[] }[] = [];
  const put = (node: Node, depth: number) => {
    const chain = [node];
    let next = below.get(node.number) ?? [];
    for (let last = node; next.length === 1 && next[0]!.threads === last.threads && last.innermost === 0; next = below.get(last.number) ?? []) {
      last = next[0]!;
      chain.push(last);
    }
    rows.push({ depth, chain });
    for (const child of next) put(child, depth + 1);
  };
  for (const root of below.get(0) ?? []) put(root, 0);
  return rows;
}

const begins = (text: string | null, names: readonly string[]) => names.some((name) => text?.startsWith(name));
const isLibrary = (n: Node) => n.language === 'native' && (begins(n.module, ['/lib/', '/lib64/', '/usr/lib/', '/usr/lib64/', '[']) || (!n.file && !!n.module && format.base(n.module).includes('.so')));
const isStart = (n: Node) => n.language === 'native' && begins(n.function, ['_start', '__libc_start', 'start_thread', 'clone', '__clone', '__GI___clone']);
const isMpi = (n: Node) => n.language === 'native' && begins(n.function, ['MPI_', 'PMPI_']);
const isInterpreter = (n: Node) => n.language === 'native' && !!n.module && begins(format.base(n.module), ['python', 'libpython']);

/** Of a stack from the outermost on, what its user knows, as scry snapshot shows it: not how it began, nor what libraries and MPI do within themselves. */
function known(stack: readonly Node[]): Node[] {
  const python = stack.some((n) => n.language === 'python'), began = stack.map(isStart).lastIndexOf(true) + 1, kept: Node[] = [];
  for (const n of stack.slice(began === stack.length ? 0 : began)) {
    let outer = kept[kept.length - 1];
    if (outer && isMpi(n) && isLibrary(outer) && !outer.function) (kept.pop(), (outer = undefined)); // a library without names, as that of mpi4py, says less
    if ((python && isInterpreter(n)) || (outer && (isMpi(outer) || (isLibrary(outer) && isLibrary(n)) || (!outer.function && !n.function && outer.module === n.module)))) continue;
    kept.push(n);
  }
  return kept;
}
const frameText = (n: Node) => `${n.function?.replace(/^PMPI_/, 'MPI_') ?? (n.module ? format.base(n.module) : '?')}${n.file && !isLibrary(n) ? ` (${format.base(n.file)}:${n.line ?? '?'})` : ''}`;

/** "0-2, 7" */
function ranges(numbers: readonly number[]): string {
  const parts: [number, number][] = [];
  for (const n of [...new Set(numbers)].sort((a, b) => a - b)) {
    const last = parts[parts.length - 1];
    if (last?.[1] === n - 1) last[1] = n;
    else parts.push([n, n]);
  }
  return parts.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(', ');
}

export interface StackLine { who: string; threads: number; running: number; text: string }
/** Stacks that are alike in what is known of them are one line: ranks first, and in the program before what is in a library only. */
export function stackLines({ nodes, processes }: Pick<Snapshot, 'nodes' | 'processes'>): StackLine[] {
  const by = new Map(nodes.map((n) => [n.number, n])), found = new Map<string, { of: Set<number>; own: boolean; threads: number; running: number; text: string }>();
  for (const leaf of nodes) {
    if (!leaf.innermost) continue;
    const stack: Node[] = [];
    for (let n: Node | undefined = leaf; n; n = by.get(n.parent)) stack.unshift(n);
    const shown = known(stack), text = shown.map(frameText).join(' › '), ranked = leaf.processes.some((p) => (processes[p]?.rank ?? -1) >= 0), key = `${ranked} ${text}`;
    const one = found.get(key) ?? { of: new Set(), own: shown.some((n) => !isLibrary(n)), threads: 0, running: 0, text };
    leaf.processes.forEach((p) => one.of.add(p));
    found.set(key, { ...one, threads: one.threads + leaf.innermost, running: one.running + Math.min(leaf.innermost, leaf.running) });
  }
  const lines = [...found.values()].map((one) => {
    const of = [...one.of].flatMap((p) => processes[p] ?? []), ranks = of.flatMap((p) => (p.rank >= 0 ? p.rank : []));
    const who = ranks.length ? `rank${ranks.length === 1 ? '' : 's'} ${ranges(ranks)}` : of.map((p) => `${p.name} (${p.pid})`).join(', ');
    return { who, threads: one.threads, running: one.running, text: one.text, order: (ranks.length ? 0 : 2) + (one.own ? 0 : 1) };
  });
  return lines.sort((a, b) => a.order - b.order || b.threads - a.threads).map(({ order: _, ...line }) => line);
}

const STACKS = 500; // rows
/** Where threads are, as far as their user knows the functions; and every frame. */
function Stacks({ of }: { of: Snapshot }) {
  const lines = stackLines(of);
  return (
    <>
      <div class="table-box" tabIndex={0} role="region" aria-label="Where the threads are">
        <table class="plain-table">
          <thead><tr><th scope="col">Who</th><th class="number wide" scope="col">Threads</th><th class="number wide" scope="col">Running</th><th scope="col" title="from the outermost function">Where</th></tr></thead>
          <tbody>{lines.slice(0, STACKS).map((line, i) => <tr key={i}><td class="who">{line.who}</td><td class="number wide">{line.threads}</td><td class="number wide">{line.running || ''}</td><td class="mono">{line.text}</td></tr>)}</tbody>
        </table>
        <More than={STACKS} of={lines.length} />
      </div>
      <details>
        <summary>Every frame</summary>
        <Frames of={of} />
      </details>
    </>
  );
}

/** The tree of stacks: which functions, in how many threads. */
function Frames({ of }: { of: Snapshot }) {
  const rows = stackRows(of.nodes);
  const name = (n: Node) => n.function ?? (n.module ? format.base(n.module) : '?');
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Stacks of all threads">
      <table class="plain-table">
        <thead><tr><th class="number" scope="col">Threads</th><th class="number" scope="col">Running</th><th scope="col">Functions, from the outermost</th></tr></thead>
        <tbody>
          {rows.slice(0, STACKS).map(({ depth, chain }) => {
            const last = chain[chain.length - 1]!;
            return (
              <tr key={last.number}>
                <td class="number">{last.threads}</td>
                <td class="number">{last.running || ''}</td>
                <td class="mono" style={{ paddingLeft: `${Math.min(24, depth) * 16}px` }}>
                  <span class="soft">{chain.slice(0, -1).map((n) => `${name(n)} › `).join('')}</span>
                  {name(last)} {last.file && <span class="soft">{format.base(last.file)}:{last.line ?? ''}</span>}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <More than={STACKS} of={rows.length} />
    </div>
  );
}
