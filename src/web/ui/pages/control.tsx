// SPDX-License-Identifier: Apache-2.0
// Changes to a running job: recording, tracing, a snapshot, signals. Shown to those who have the right to.
import { useState } from 'preact/hooks';
import { ask, jobPath, tell, type Snapshot } from '../api';
import { Danger, More, Notice } from '../design/parts';
import { useDoing } from '../doing';
import * as format from '../format';

const signals: [string, string][] = [['TERM', 'asks it to end'], ['INT', 'as Ctrl-C'], ['HUP', 'for what the program does with it'], ['USR1', 'the same'], ['USR2', 'the same'], ['STOP', 'stops it'], ['CONT', 'goes on'], ['KILL', 'ends it at once; nothing is saved']];

export function Control({ id }: { id: string }) {
  const { said, busy, doIt } = useDoing();
  const [trace, setTrace] = useState('');
  const [signal, setSignal] = useState('TERM');
  const [snapshot, setSnapshot] = useState<Snapshot>();
  const set = (done: string, settings: Record<string, string>) => doIt(async () => (await tell('POST', jobPath(id, 'set'), settings), done));
  return (
    <section class="panel no-print" aria-labelledby="control-title">
      <h2 id="control-title">Control</h2>
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

const STACKS = 500; // rows
/** The tree of stacks: which functions, in how many threads. */
function Stacks({ of }: { of: Snapshot }) {
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
