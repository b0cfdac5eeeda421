// SPDX-License-Identifier: Apache-2.0
// Figures by process: of one (or all together) as bars, or all compared, each row with a small bar for each process. What is drawn stands
// in a table, so it is sorted, read aloud and printed as one.
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { useColours } from '../design/colours';
import type { CallClass, Colours } from '../design/colours';
import { Choice, Notice } from '../design/parts';
import type { Column } from '../design/table';
import { Table } from '../design/table';
import { count, digits, sentence, share } from '../format';
import { PictureFrame, svgPen } from '../pictures';
import type { Pen } from '../pictures';
import { go, useNumber, useParam } from '../state';
import { notesOf, useWithoutSetup } from './parts';
import type { Process, Row } from './profile';
import { barLength, beyondMean, greatest, imbalance, isSetup, processLabel, severalWorlds, sum, top, valueOf, whereGreatest } from './profile';
import { Strip } from './strip';

export interface Measure { key: string; title: string; unit: string; format: (value: number) => string; rows: Row[] }

interface Props {
  id: string; title: string; name: string; what: string; processes: Process[]; measures: Measure[]; notes?: unknown; empty: ComponentChildren;
  /** Further figures of a row, behind its bar. */
  also?: (row: Row, process: number | null) => { title: string; text: string; value: number }[];
}

const TOPS = [10, 20, 50, 100, 1000];

/** How a row leads on: to its calls in the space-time diagram. */
const toCalls = (id: string, row: Row) => row.key !== '\0others' && row.all === undefined && go(['jobs', id, 'space'], { q: row.name });

export function Measured(props: Props) {
  const { processes, measures, id } = props, colours = useColours();
  const [key, setKey] = useParam('m', measures[0]!.key);
  const [over, setOver] = useParam('over', 'one');
  const [chosen, setChosen] = useParam('process', 'all');
  const [scale, setScale] = useParam('scale', 'linear');
  const [most, setMost] = useNumber('top', 20);
  const whole = measures.find(one => one.key === key) ?? measures[0]!;
  const setup = useWithoutSetup(measures.some(one => one.rows.some(row => isSetup(row.name))));
  const compared = over === 'all' && processes.length > 1;
  const sums = whole.rows.some(row => row.all !== undefined);
  const measure = useMemo(() => ({ ...whole, rows: whole.rows.filter(row => !(setup.out && isSetup(row.name)) && !(compared && row.all !== undefined)) }), [whole, setup.out, compared]);
  const several = severalWorlds(processes);
  const number = chosen === 'all' || compared || !processes[Number(chosen)] ? null : Number(chosen);
  const shown = useMemo(() => top(measure.rows, number, most), [measure, number, most]);
  const all = useMemo(() => measure.rows.reduce((total, row) => total + valueOf(row, number), 0), [measure, number]);
  const longest = shown.rows.reduce((least, row) => Math.max(least, valueOf(row, number)), 0), log = scale === 'log';
  const leftOut = setup.out ? whole.rows.reduce((total, row) => total + (isSetup(row.name) ? valueOf(row, number) : 0), 0) : 0;
  const labels = processes.map(process => processLabel(process, several));
  const columns = compared ? comparedColumns(id, measure, labels, colours, log, props.what) : barColumns(measure, number, longest, all, log, props.also, props.what);
  const take = {
    name: `${props.name}-${measure.key}${setup.out ? '-without-setup' : ''}`,
    svg: (paper: Colours) => drawing(shown.rows, measure, labels, number, compared, log, paper, `${props.title}: ${measure.title}${number === null ? '' : `, ${labels[number]}`}${setup.out ? ', without MPI_Init and MPI_Finalize' : ''}`),
    table: () => ({
      columns: [props.what, 'defined', ...(number === null ? labels : [labels[number]!]).map(label => `${label} ${measure.unit}`), ...(sums ? [`all ${measure.unit}`] : [])],
      rows: measure.rows.map(row => [row.name, row.about, ...(number === null ? labels.map((_, i) => row.values[i] ?? null) : [row.values[number] ?? null]), ...(sums ? [valueOf(row, null)] : [])]),
    }),
  };
  return (
    <PictureFrame title={props.title} of={id} picture={take} about={<>{compared && 'Each row has a bar for each process; imbalance is the greatest over the mean: 1 is even. '}{measure.rows.some(row => row.all === undefined) && <span class="no-print">A click on a row shows its calls in space and time.</span>}</>} controls={
      <>
        <Choice label="Measure" value={measure.key} of={measures.map(one => [one.key, one.title] as const)} onChange={setKey} />
        {processes.length > 1 && <Choice label="Processes" value={over as 'one' | 'all'} of={[['one', 'Sums'], ['all', 'Each process']]} onChange={setOver} />}
        {!compared && processes.length > 1 && (
          <label>of <select aria-label="Process" value={chosen} onChange={e => setChosen(e.currentTarget.value)}>
            <option value="all">all together</option>
            {labels.map((label, i) => <option key={i} value={String(i)}>{label}</option>)}
          </select></label>
        )}
        {setup.control}
        <Choice label="Scale" value={scale as 'linear' | 'log'} of={[['linear', 'Linear'], ['log', 'Log']]} onChange={setScale} />
        <label>top <select aria-label="Rows" value={String(most)} onChange={e => setMost(Number(e.currentTarget.value))}>{TOPS.map(n => <option key={n} value={String(n)}>{n}</option>)}</select></label>
      </>
    }>
      {shown.rows.length > 0 && notesOf(props.notes).map(text => <Notice key={text} title={sentence(text)} />)}
      {sums && (compared || number !== null) && <p class="left-out">Functions of Python are not here: of them the sums over all processes are known.</p>}
      {setup.told(`${measure.format(leftOut)}${all + leftOut > 0 ? `, ${share(leftOut / (all + leftOut))}` : ''} of ${measure.title.toLowerCase()}.${measure.key === 'total' ? ' What calls them still has their time.' : ''}`)}
      {shown.rows.length === 0 ? props.empty : (
        <Table label={`${props.title}: ${measure.title}`} columns={columns} rows={shown.rows} rowKey={row => row.key} sort="-value" onOpen={row => toCalls(id, row)} rowClass={row => row.key === '\0others' ? 'measured-others' : ''} />
      )}
    </PictureFrame>
  );
}

function nameColumn(what: string): Column<Row> {
  return { key: 'name', title: what, value: row => row.name, cell: row => <span class="measured-name" title={row.about}>{row.name}{row.about && <small> {row.about}</small>}</span> };
}

function barColumns(measure: Measure, process: number | null, longest: number, all: number, log: boolean, also: Props['also'], what: string): Column<Row>[] {
  const more = (also ? measure.rows.slice(0, 1) : []).flatMap(row => also!(row, process).map((_, i) => i));
  return [
    nameColumn(what),
    { key: 'bar', title: 'Compared', cell: row => <span class={`measured-bar ${row.class}`} style={{ width: `${100 * barLength(valueOf(row, process), longest, log)}%` }} /> },
    { key: 'value', title: measure.title, number: true, value: row => row.key === '\0others' ? null : valueOf(row, process), cell: row => <span title={`${count(valueOf(row, process))} ${measure.unit}`} data-value={valueOf(row, process)}>{measure.format(valueOf(row, process))}</span> },
    { key: 'share', title: 'Share', about: 'of all that is in this table', number: true, wide: true, value: row => valueOf(row, process), cell: row => all > 0 ? `${digits(100 * valueOf(row, process) / all, 1)} %` : '' },
    ...more.map((i): Column<Row> => ({
      key: `also${i}`, title: also!(measure.rows[0]!, process)[i]!.title, number: true, wide: true,
      value: row => also!(row, process)[i]?.value ?? null, cell: row => also!(row, process)[i]?.text ?? '',
    })),
  ];
}

function comparedColumns(id: string, measure: Measure, labels: string[], colours: Colours, log: boolean, what: string): Column<Row>[] {
  const mean = (row: Row) => sum(row.values) / Math.max(1, row.values.length);
  return [
    nameColumn(what),
    { key: 'strip', title: 'Each process', cell: row => <Strip values={row.values} labels={labels} format={measure.format} colours={colours} log={log} onPick={process => row.key !== '\0others' && go(['jobs', id, 'space'], { q: row.name, lanes: process })} /> },
    { key: 'value', title: 'All', number: true, value: row => row.key === '\0others' ? null : sum(row.values), cell: row => <span title={`${count(sum(row.values))} ${measure.unit}`} data-value={sum(row.values)}>{measure.format(sum(row.values))}</span> },
    { key: 'mean', title: 'Mean', number: true, wide: true, value: mean, cell: row => measure.format(mean(row)) },
    { key: 'max', title: 'Most', number: true, wide: true, value: row => greatest(row.values), cell: row => <>{measure.format(greatest(row.values))} <small>{labels[whereGreatest(row.values)]}</small></> },
    { key: 'imbalance', title: 'Imbalance', about: 'the greatest over the mean: 1 is even; sorted by what the greatest has more than the mean, which is what it costs', number: true, value: row => beyondMean(row.values), cell: row => { const value = imbalance(row.values); return value === null ? '' : <span class={value > 1.5 ? 'measured-uneven' : ''}>{digits(value, 2)}</span>; } },
  ];
}

// ---- on paper ----

const ROW_HEIGHT = 24, NAME = 260, FIGURE = 110, WIDTH = 1000;

function drawing(rows: readonly Row[], measure: Measure, labels: readonly string[], process: number | null, compared: boolean, log: boolean, c: Colours, title: string): string {
  const height = 50 + rows.length * ROW_HEIGHT, pen: Pen & { svg(): string } = svgPen(WIDTH, height, c.surface);
  const longest = rows.reduce((most, row) => Math.max(most, valueOf(row, process)), 0), room = WIDTH - NAME - FIGURE - 30;
  pen.text(title, 12, 24, { colour: c.ink, size: 15, weight: 600 });
  rows.forEach((row, i) => {
    const y = 42 + i * ROW_HEIGHT;
    pen.clip(0, y, NAME - 6, ROW_HEIGHT);
    pen.text(row.name, 12, y + 16, { colour: c.ink, mono: true });
    pen.unclip();
    if (compared) {
      const most = greatest(row.values), width = room / Math.max(1, labels.length);
      row.values.forEach((value, k) => {
        const length = barLength(value, most, log) * (ROW_HEIGHT - 5);
        pen.rect(NAME + k * width, y + ROW_HEIGHT - 3 - length, Math.max(0.4, width - (width > 4 ? 1 : 0)), length, c.compute);
      });
    } else
      pen.rect(NAME, y + 4, barLength(valueOf(row, process), longest, log) * room, ROW_HEIGHT - 8, c[row.class as CallClass] ?? c.compute);
    pen.text(measure.format(valueOf(row, process)), WIDTH - 12, y + 16, { colour: c.ink, align: 'end' });
  });
  return pen.svg();
}

