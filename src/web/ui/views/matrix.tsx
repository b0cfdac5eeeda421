// SPDX-License-Identifier: Apache-2.0
// Who sent how much to whom: a field for each pair of ranks, as the report's mpi.matrix counts it. A part of the ranks can be looked at
// closer; of more ranks than there are pixels, a field is several pairs.
import { useMemo, useState } from 'preact/hooks';
import { jobPath, useAnswer } from '../api';
import type { Report } from '../api';
import { heat } from '../design/colours';
import type { Colours } from '../design/colours';
import { Answered, Choice, Empty } from '../design/parts';
import { Table } from '../design/table';
import { count, size } from '../format';
import { Drawn, PictureFrame, svgPen } from '../pictures';
import type { Pen } from '../pictures';
import { useParam } from '../state';
import type { Pair } from './pairs';
import { cellAt, fieldOf, pairsOf, rangeOf } from './pairs';

type What = 'bytes' | 'messages' | 'received_bytes' | 'one_sided_bytes';
const WHATS: readonly (readonly [What, string])[] = [['bytes', 'Bytes sent'], ['messages', 'Messages'], ['received_bytes', 'Bytes received'], ['one_sided_bytes', 'One-sided']];
const SIDE = 640, LEFT = 56, TOP = 30;

/** Of the square, in pixels: of few ranks, fields are no larger than a hand needs. */
const sideOf = (width: number, cells: number) => Math.min(SIDE, 80 * cells, Math.max(80, width - LEFT - 8));

/** Below the calls, which say where there is no MPI at all. */
export function Matrix({ id }: { id: string }) {
  const answer = useAnswer<Report>(jobPath(id, 'report'));
  return (
    <Answered of={answer} wait="Asking for the report …">
      {report => !report.mpi ? null : report.mpi.matrix.length > 0 ? <Pairs id={id} report={report} /> : report.mpi.unmeasured.includes('peers') ? (
        <Empty title="Who sends to whom was not measured.">The job ran with --mpi-metrics without peers.</Empty>
      ) : (
        <Empty title="No rank sent anything to another one by itself.">
          What collective operations move is no pair's: it is among the calls above.
        </Empty>
      )}
    </Answered>
  );
}

function Pairs({ id, report }: { id: string; report: Report }) {
  const matrix = report.mpi!.matrix, worlds = [...new Set(matrix.map(pair => pair.world))].sort((a, b) => a - b);
  const [what, setWhat] = useParam('pairs', 'bytes');
  const [scale, setScale] = useParam('shades', 'linear');
  const [world, setWorld] = useParam('world', String(worlds[0] ?? 0));
  const [part, setPart] = useParam('ranks');
  const [at, setAt] = useState<[number, number] | null>(null);
  const { pairs, ranks } = useMemo(() => pairsOf(matrix, Number(world)), [matrix, world]);
  const range = rangeOf(part, ranks), key = what as What;
  const field = useMemo(() => fieldOf(pairs, range.from, range.to, key, SIDE), [pairs, range.from, range.to, key]);
  const draw = useMemo(() => (pen: Pen, width: number, _height: number, colours: Colours) => {
    const side = sideOf(width, field.cells), each = side / field.cells;
    const step = Math.max(1, Math.ceil(field.cells / Math.floor(side / 34)));
    for (let i = 0; i < field.cells; i += step) {
      pen.text(String(range.from + i * field.ranksEach), LEFT - 6, TOP + (i + 0.5) * each + 4, { colour: colours.soft, size: 11, align: 'end' });
      pen.text(String(range.from + i * field.ranksEach), LEFT + (i + 0.5) * each, TOP - 6, { colour: colours.soft, size: 11, align: 'middle' });
    }
    pen.text('to', LEFT + side / 2, 11, { colour: colours.soft, size: 11, align: 'middle' });
    pen.text('from', 12, TOP + side / 2, { colour: colours.soft, size: 11, align: 'middle', turn: -90 });
    pen.rect(LEFT, TOP, side, side, colours.heat0);
    const gap = each > 6 ? 1 : 0, steps = Array.from({ length: 65 }, (_, i) => heat(colours, i / 64));
    for (let i = 0; i < field.cells * field.cells; i++) {
      const value = field.values[i]!;
      if (value > 0) {
        const amount = scale === 'log' ? Math.max(0.12, 1 + Math.log10(value / field.most) / 6) : 0.06 + 0.94 * value / field.most;
        pen.rect(LEFT + (i % field.cells) * each, TOP + Math.floor(i / field.cells) * each, Math.max(0.5, each - gap), Math.max(0.5, each - gap), steps[Math.round(amount * 64)]!);
      }
    }
  }, [field, scale, range.from]);
  const row = Math.min(at?.[0] ?? 0, field.cells - 1), column = Math.min(at?.[1] ?? 0, field.cells - 1);
  const marked = useMemo(() => (pen: Pen, width: number, height: number, colours: Colours) => {
    draw(pen, width, height, colours);
    if (!at)
      return;
    const each = sideOf(width, field.cells) / field.cells, x = LEFT + column * each, y = TOP + row * each;
    pen.line([x, y, x + each, y, x + each, y + each, x, y + each, x, y], colours.bad, 2);
  }, [draw, at, row, column, field]);
  const text = (value: number) => key === 'messages' ? count(value) : size(value);
  const told = at ? row * field.cells + column : field.values.indexOf(field.most); // until one is pointed at, the greatest
  const rank = (cell: number) => field.ranksEach === 1 ? `rank ${range.from + cell}` : `ranks ${range.from + cell * field.ranksEach}–${Math.min(range.to, range.from + (cell + 1) * field.ranksEach - 1)}`;
  const closer = () => {
    const width = Math.max(4, Math.floor((range.to - range.from + 1) / 2)), middle = range.from + Math.floor((row + column) / 2 * field.ranksEach);
    const from = Math.max(0, Math.min(ranks - width, middle - Math.floor(width / 2)));
    setPart(`${from}-${from + width - 1}`);
  };
  const farther = () => {
    const width = (range.to - range.from + 1) * 2, from = Math.max(0, range.from - Math.floor(width / 4));
    setPart(width >= ranks ? '' : `${from}-${Math.min(ranks - 1, from + width - 1)}`);
  };
  const keys = (event: KeyboardEvent) => {
    const move: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const by = move[event.key];
    if (event.ctrlKey || event.altKey || event.metaKey)
      return;
    if (by)
      setAt([Math.max(0, Math.min(field.cells - 1, row + by[0])), Math.max(0, Math.min(field.cells - 1, column + by[1]))]);
    else if (event.key === '+' || event.key === '=')
      closer();
    else if (event.key === '-')
      farther();
    else
      return;
    event.preventDefault();
  };
  return (
    <PictureFrame title="Who sends to whom" of={id} about="Messages between two ranks as the sender counted them; rows send, columns receive. What collective operations move is not in it." picture={{
      name: 'matrix', table: () => ({ columns: ['world', 'from', 'to', 'messages', 'bytes', 'received_messages', 'received_bytes', 'one_sided', 'one_sided_bytes'],
        rows: matrix.map(pair => [pair.world, pair.from, pair.to, pair.messages, pair.bytes, pair.received_messages, pair.received_bytes, pair.one_sided, pair.one_sided_bytes]) }),
      svg: colours => { const side = sideOf(SIDE + LEFT + 8, field.cells), pen = svgPen(side + LEFT + 8, side + TOP + 8, colours.surface); draw(pen, side + LEFT + 8, side + TOP + 8, colours); return pen.svg(); },
    }} controls={
      <>
        <Choice label="Amount" value={key} of={WHATS} onChange={setWhat} />
        <Choice label="Scale" value={scale as 'linear' | 'log'} of={[['linear', 'Linear'], ['log', 'Log']]} onChange={setScale} />
        {worlds.length > 1 && <label>program <select value={world} onChange={e => setWorld(e.currentTarget.value)}>{worlds.map(n => <option key={n} value={String(n)}>{n + 1}</option>)}</select></label>}
        {ranks > 4 && <div class="choice" role="group" aria-label="Ranks"><button type="button" aria-label="Closer" onClick={closer}>+</button><button type="button" aria-label="Farther" disabled={part === ''} onClick={farther}>−</button></div>}
      </>
    }>
      <p class="matrix-told" role="status">
        {!at && 'Most: '}{told >= 0 && <>{rank(Math.floor(told / field.cells))} → {rank(told % field.cells)}: <b>{text(field.values[told] ?? 0)}</b></>}
        {part && <> (ranks {range.from}–{range.to} of {ranks})</>}
      </p>
      <div class="matrix" style={{ '--picture': `${sideOf(SIDE + LEFT + 8, field.cells) + LEFT + 8}px` }}>
        <Drawn draw={marked} height={width => sideOf(width, field.cells) + TOP + 8} label={`${ranks} by ${ranks} ranks. Arrows move, plus and minus and Ctrl with the wheel zoom; the table has the same.`} onKey={keys}
          onMove={(x, y, width) => { const cell = cellAt(x - LEFT, y - TOP, sideOf(width, field.cells), field.cells); if (cell && (cell[0] !== at?.[0] || cell[1] !== at[1])) setAt(cell); }}
          onWheel={event => { if (!event.ctrlKey) return; event.preventDefault(); if (event.deltaY < 0) closer(); else if (part) farther(); }} />
        <Table label="Pairs of ranks" rows={pairs} rowKey={pair => `${pair.from}-${pair.to}`} sort="-bytes" columns={[
          { key: 'from', title: 'From', number: true, cell: pair => pair.from, value: (pair: Pair) => pair.from },
          { key: 'to', title: 'To', number: true, cell: pair => pair.to, value: (pair: Pair) => pair.to },
          { key: 'messages', title: 'Messages', number: true, cell: pair => count(pair.messages), value: (pair: Pair) => pair.messages },
          { key: 'bytes', title: 'Sent', number: true, cell: pair => <span title={`${count(pair.bytes)} bytes`}>{size(pair.bytes)}</span>, value: (pair: Pair) => pair.bytes },
          { key: 'received', title: 'Received', number: true, wide: true, cell: pair => <span class={pair.received_bytes !== null && pair.received_bytes !== pair.bytes ? 'measured-uneven' : ''}>{pair.received_bytes === null ? '–' : size(pair.received_bytes)}</span>, value: (pair: Pair) => pair.received_bytes },
        ]} />
      </div>
    </PictureFrame>
  );
}
