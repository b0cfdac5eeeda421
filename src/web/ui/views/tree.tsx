// SPDX-License-Identifier: Apache-2.0
// The call tree: nested boxes (a flame graph with its root on top), and the same as rows below.
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { jobPath, query, useAnswer } from '../api';
import { inkOn } from '../design/colours';
import type { Colours } from '../design/colours';
import { Answered, Notice } from '../design/parts';
import { Table } from '../design/table';
import { count, ns, sentence, share } from '../format';
import type { ViewProps } from '../frame/view';
import { Drawn, PictureFrame, svgPen } from '../pictures';
import type { Pen } from '../pictures';
import { href, setParams, useNumber, useParam } from '../state';
import { assignColours, hex, schemeOf } from '../space/colours';
import type { Box, TreeNode } from './flame';
import { boxAt, boxesOf, childrenOf, foundTime, pathTo, without } from './flame';
import { NoTrace, notesOf, useWithoutSetup } from './parts';
import type { Profile } from './profile';
import { isSetup, processLabel, severalWorlds } from './profile';

interface Tree { nodes: (Omit<TreeNode, 'parent'> & { parent: number | null })[]; notes?: unknown }

const ROW = 19;
const DEEPEST = 60;
const SLIVER = 1 / 200; // of the width: what is narrower makes no picture higher

export function CallTree({ id }: ViewProps) {
  const [process, setProcess] = useParam('process', 'all'), [focus, setFocus] = useNumber('node', -1);
  const answer = useAnswer<Tree>(jobPath(id, 'tree') + query({ processes: process === 'all' ? undefined : process }));
  const profile = useAnswer<Profile>(jobPath(id, 'profile')), processes = profile.value?.processes ?? [];
  const nodes = useMemo(() => (answer.value?.nodes ?? []).map((node): TreeNode => ({ ...node, parent: node.parent ?? -1 })), [answer.value]);
  if (answer.error?.kind === 'no_trace')
    return <NoTrace id={id} text={answer.error.message} />;
  const several = severalWorlds(processes), choice = processes.length > 1 && (
    <label>of <select aria-label="Process" value={process} onChange={e => (setParams({ node: undefined }), setProcess(e.currentTarget.value))}>
      <option value="all">all together</option>
      {processes.map((one, i) => <option key={i} value={String(one.process)}>{processLabel(one, several)}</option>)}
    </select></label>
  );
  return (
    <Answered of={profile.waiting ? { ...answer, value: undefined, waiting: true } : answer} wait="Adding up all calls …">
      {tree => nodes.length ? (
        <Flame id={id} title="Call tree" name="call-tree" about="As wide as the time in it, with what it calls below." hint="Coloured by name; calls of MPI by their kind." counted nodes={nodes} notes={profile.value?.functions.length ? notesOf(tree.notes) : []}
          controls={choice} focus={focus} onFocus={setFocus} link={name => <a href={href(['jobs', id, 'space'], { q: name })}>in space and time</a>} />
      ) : <NoTrace id={id} notes={tree.notes} />}
    </Answered>
  );
}

/** Whether a name has the text, in which * stands for anything; null: there is no text. */
export function matcher(typed: string): ((name: string) => boolean) | null {
  const text = typed.trim();
  if (!text)
    return null;
  const pattern = new RegExp(text.split('*').map(part => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&')).join('.*'), 'i');
  return name => pattern.test(name);
}

interface FlameProps {
  id: string; title: string; /** Of files. */ name: string; about: ComponentChildren; /** While nothing is pointed at. */ hint: string; nodes: TreeNode[]; notes: string[];
  /** How often each was called is known. */
  counted?: boolean;
  controls: ComponentChildren;
  /** The node that is the whole; -1: all. */
  focus: number; onFocus: (node: number) => void;
  /** Leads on from a function. */
  link: (name: string) => ComponentChildren;
}

export function Flame({ id, title, name, about, hint, nodes: every, notes, counted = false, controls, focus: focusText, onFocus: setFocus, link }: FlameProps) {
  const [text, setText] = useParam('find');
  const [hover, setHover] = useState<Box | null>(null);
  const [cursor, setCursor] = useState(-1);
  const setup = useWithoutSetup(useMemo(() => every.some(node => isSetup(node.function)), [every]));
  const { nodes, gone, time } = useMemo(() => without(every, setup.out ? isSetup : () => false), [every, setup.out]);
  const focus = focusText < nodes.length && !gone[focusText] ? focusText : -1;
  const children = useMemo(() => childrenOf(nodes).map(list => list.filter(i => !gone[i])), [nodes, gone]);
  const boxes = useMemo(() => boxesOf(nodes, children, focus, 1 / 4000), [nodes, children, focus]);
  const names = useMemo(() => nodes.map(node => node.function), [nodes]);
  const found = useMemo(() => {
    const match = matcher(text);
    return new Set(match ? names.flatMap((name, i) => match(name) && !gone[i] ? [i] : []) : []);
  }, [names, gone, text]);
  const distinct = useMemo(() => [...new Set(names)], [names]);
  const colourOf = useMemo(() => {
    const numbers = assignColours(distinct, 16);
    return new Map(distinct.map((name, i) => [name, numbers[i]!]));
  }, [distinct]);
  const path = focus >= 0 ? pathTo(nodes, focus) : [];
  const height = (Math.min(DEEPEST, boxes.reduce((most, box) => box.to - box.from < SLIVER ? most : Math.max(most, box.depth), 0)) + 1) * ROW + 1;
  const all = nodes.reduce((sum, node) => sum + (node.parent < 0 ? node.total_ns : 0), 0);
  const leftOut = `${ns(time)}, ${share(time / Math.max(1, all + time))} of the time`;
  const draw = useMemo(() => (pen: Pen, width: number, _height: number, colours: Colours) => {
    const scheme = schemeOf(colours);
    for (const box of boxes) {
      const x = box.from * width, wide = (box.to - box.from) * width, name = names[box.node]!;
      if (wide < 0.4 || box.depth > DEEPEST)
        continue;
      const kind = nodes[box.node]!.class;
      const faded = found.size > 0 && !found.has(box.node);
      const fill = faded ? colours.sunken : kind !== 'compute' ? colours[kind as 'p2p'] ?? colours.other : hex(scheme.functions[colourOf.get(name)!]!);
      pen.rect(x, box.depth * ROW, Math.max(0.4, wide - (wide > 3 ? 1 : 0)), ROW - 1, fill);
      if (box.node === cursor || hover?.node === box.node)
        pen.line([x + 1, box.depth * ROW + 1, x + wide - 2, box.depth * ROW + 1, x + wide - 2, box.depth * ROW + ROW - 2, x + 1, box.depth * ROW + ROW - 2, x + 1, box.depth * ROW + 1], colours.ink, 2);
      if (wide > 34) {
        pen.clip(x, box.depth * ROW, wide - 3, ROW);
        pen.text(name, x + 4, box.depth * ROW + 13, { colour: faded ? colours.soft : inkOn(fill), size: 11 });
        pen.unclip();
      }
    }
  }, [boxes, names, found, cursor, hover, colourOf]);
  const at = (x: number, y: number, width: number) => boxAt(boxes, x / width, Math.floor(y / ROW));
  const choose = (node: number) => {
    setFocus(node === focus ? nodes[node]?.parent ?? -1 : node);
    setCursor(node);
  };
  const keys = (event: KeyboardEvent) => {
    const here = cursor >= 0 ? cursor : boxes[0]?.node ?? -1, parent = nodes[here]?.parent ?? -1;
    const beside = parent >= 0 ? children[parent]! : nodes.flatMap((node, i) => node.parent < 0 ? [i] : []);
    const step: Record<string, () => number> = {
      ArrowDown: () => children[here]?.[0] ?? here, ArrowUp: () => parent >= 0 ? parent : here,
      ArrowRight: () => beside[beside.indexOf(here) + 1] ?? here, ArrowLeft: () => beside[beside.indexOf(here) - 1] ?? here,
    };
    if (event.ctrlKey || event.altKey || event.metaKey)
      return;
    if (step[event.key])
      setCursor(step[event.key]!());
    else if (event.key === 'Enter')
      choose(here);
    else if (event.key === 'Escape' || event.key === 'Backspace')
      setFocus(focus >= 0 ? nodes[focus]!.parent : -1);
    else
      return;
    event.preventDefault();
    event.stopPropagation();
  };
  const told = hover?.node ?? (cursor >= 0 ? cursor : focus >= 0 ? focus : -1);
  const shown = nodes.flatMap((node, i) => gone[i] ? [] : [{ node, i }]);
  const rowsOf = () => shown.map(({ node, i }) => [names[i]!, pathTo(nodes, i).map(k => names[k]!).join(' > '), ...counted ? [node.calls] : [], node.total_ns, node.self_ns]);
  return (
    <PictureFrame title={title} of={id} about={<>{about} <span class="no-print">A click makes it the whole, another one goes back.</span></>} picture={{
      name: `${name}${setup.out ? '-without-setup' : ''}`, table: () => ({ columns: ['function', 'path', ...counted ? ['calls'] : [], 'total_ns', 'self_ns'], rows: rowsOf() }),
      svg: colours => {
        const pen = svgPen(1200, height + (setup.out ? 24 : 0), colours.surface);
        draw(pen, 1200, height, colours);
        if (setup.out)
          pen.text(`without MPI_Init and MPI_Finalize, ${leftOut}`, 4, height + 16, { colour: colours.soft, size: 11 });
        return pen.svg();
      },
    }} controls={
      <>
        {controls}
        <input type="search" aria-label="Find functions" placeholder="Find, e.g. MPI_*" value={text} onInput={e => setText(e.currentTarget.value)} />
        {setup.control}
        {text.trim() && <span role="status">{found.size ? `${share(foundTime(nodes, found) / Math.max(1, all))} of the time` : 'none'}</span>}
      </>
    }>
      {notes.map(note => <Notice key={note} title={sentence(note)} />)}
      {setup.told(`${leftOut}.`)}
      <nav class="flame-path" aria-label="Path">
        <button type="button" class="quiet" onClick={() => setFocus(-1)}>all</button>
        {path.map(node => <button key={node} type="button" class="quiet" onClick={() => setFocus(node)}>› {names[node]}</button>)}
      </nav>
      <Drawn draw={draw} height={height} class="flame" label={`${title}: ${count(shown.length)} calls of functions in functions. Arrows move, Enter makes one the whole, Escape goes back; the table below has the same.`}
        onMove={(x, y, width) => { const box = at(x, y, width) ?? null; if (box !== hover) setHover(box); }} onLeave={() => setHover(null)}
        onClick={(x, y, width) => { const box = at(x, y, width); if (box) choose(box.node); }} onKey={keys} />
      <p class="flame-told" role="status">{told >= 0 && nodes[told] ? (
        <><b>{names[told]}</b> {ns(nodes[told]!.total_ns)}, {share(nodes[told]!.total_ns / Math.max(1, all))} of all; itself {ns(nodes[told]!.self_ns)}{counted && `; ${count(nodes[told]!.calls)} calls`}{' '}
          {link(names[told]!)}</>
      ) : hint}</p>
      <details>
        <summary>As a table</summary>
        <Table label={title} rows={shown} rowKey={row => row.i} sort="-total" onOpen={row => choose(row.i)} columns={[
          { key: 'name', title: 'Function', cell: row => <span class="measured-name">{names[row.i]}</span>, value: row => names[row.i]! },
          { key: 'from', title: 'Called by', cell: row => <span class="measured-name">{row.node.parent >= 0 ? names[row.node.parent] : ''}</span>, value: row => row.node.parent >= 0 ? names[row.node.parent]! : '', wide: true },
          ...counted ? [{ key: 'calls', title: 'Calls', number: true, cell: (row: typeof shown[number]) => count(row.node.calls), value: (row: typeof shown[number]) => row.node.calls }] : [],
          { key: 'total', title: 'Total', number: true, cell: row => ns(row.node.total_ns), value: row => row.node.total_ns },
          { key: 'self', title: 'Self', number: true, cell: row => ns(row.node.self_ns), value: row => row.node.self_ns },
        ]} />
      </details>
    </PictureFrame>
  );
}
