// SPDX-License-Identifier: Apache-2.0
// A series of the same task over numbers of processes: seconds, speed-up and efficiency, beside what would be ideal.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { query, useAnswer, useTasks, type TaskRow, type TaskScaling } from '../api';
import { useColours } from '../design/colours';
import type { Colours } from '../design/colours';
import { Answered, Empty } from '../design/parts';
import { Table } from '../design/table';
import { digits, moment, seconds } from '../format';
import type { ViewProps } from '../frame/view';
import { FONT, PictureFrame, svgPen, useWidth } from '../pictures';
import { href, useParam } from '../state';
import { taskTitle } from '../tasks/list';

type Series = TaskScaling;
type By = Series['by']; // processes, or threads of each
type Point = Series['tasks'][number] & { width: number };

const HEIGHT = 300;

/** The series that there are, the newest first: any one of its tasks stands for all. */
function seriesOf(rows: TaskRow[]): { ids: string[]; title: string }[] {
  const found = new Map<string, TaskRow[]>();
  for (const row of rows) if (row.series) found.set(row.series, [...(found.get(row.series) ?? []), row]);
  return [...found.values()].map((list) => {
    const counts = list.map((row) => row.processes).sort((a, b) => a - b);
    return { ids: list.map((row) => row.id), title: `${list[0]!.name || list[0]!.program}: ${counts.join(', ')} processes, ${moment(list[0]!.created_seconds)}` };
  });
}

export function Scaling({ session }: ViewProps) {
  const [asked, setTasks] = useParam('tasks');
  const all = useTasks(), rows = all.value ?? [], series = seriesOf(rows), tasks = asked || seriesOf(rows.filter(ran))[0]?.ids[0] || ''; // of itself, the newest that ran
  const shown = tasks.includes(',') ? undefined : series.find((one) => one.ids.includes(tasks));
  const answer = useAnswer<Series>(tasks ? `scaling${query({ tasks })}` : null, 10);
  return (
    <>
      <h1>Scaling</h1>
      <form class="compare-choose" onSubmit={e => e.preventDefault()}>
        <label>Series <select value={shown?.ids[0] ?? ''} onChange={e => setTasks(e.currentTarget.value)}>
          {!shown && <option value="">{tasks ? 'chosen tasks' : '…'}</option>}
          {series.map(one => <option key={one.ids[0]} value={one.ids[0]}>{one.title}</option>)}
        </select></label>
      </form>
      {rows.some(ran) && <Choose rows={rows.filter(ran)} chosen={asked ? shown?.ids ?? asked.split(',') : []} first={!tasks} onChoose={ids => setTasks(ids.join(','))} />}
      {tasks ? <Answered of={answer}>{series => series.tasks.length ? <Curves series={series} of={tasks} /> : <NoSeries may={session.rights.includes('submit')} />}</Answered> : !all.waiting && <NoSeries may={session.rights.includes('submit')} />}
    </>
  );
}

const ran = (row: TaskRow) => row.runs_done > 0;

/** Tasks that are no series, but are to be compared as one. */
function Choose({ rows, chosen, first, onChoose }: { rows: TaskRow[]; chosen: string[]; /** Nothing is shown until some are. */ first: boolean; onChoose: (ids: string[]) => void }) {
  const [open, setOpen] = useState(first);
  useEffect(() => void (first && setOpen(true)), [first]);
  return (
    <details class="panel no-print" open={open} onToggle={e => setOpen(e.currentTarget.open)}>
      <summary>Tasks one by one{chosen.length > 0 && ` (${chosen.length} chosen)`}</summary>
      <Table label="Tasks to compare" rows={rows} rowKey={row => row.id} sortParam="choose" sort="-made" visible={8} columns={[
        { key: 'chosen', title: 'Choose', cell: row => <label class="check"><input type="checkbox" checked={chosen.includes(row.id)} aria-label={`choose ${taskTitle(row)}, ${row.id}`} onChange={e => onChoose(e.currentTarget.checked ? [...chosen, row.id] : chosen.filter(id => id !== row.id))} /></label> },
        { key: 'name', title: 'Task', cell: row => <a href={href(['tasks', row.id])} title={row.id}>{taskTitle(row)}</a>, value: taskTitle },
        { key: 'processes', title: 'Processes', number: true, cell: row => row.processes, value: row => row.processes },
        { key: 'runs', title: 'Runs', number: true, wide: true, cell: row => row.runs_done, value: row => row.runs_done },
        { key: 'made', title: 'Made', number: true, wide: true, cell: row => moment(row.created_seconds), value: row => row.created_seconds },
      ]} />
    </details>
  );
}

const NoSeries = ({ may }: { may: boolean }) => <Empty title="A series runs a program with several numbers of processes." command="scry submit -n 1,2,4,8 -- ./program">Its tasks are compared here. {may ? <><a href={href(['submit'])}>Submit a task</a> with several numbers of processes, or on the command line:</> : 'On the command line:'}</Empty>;

/** From which power of two to which these reach. */
const powers = (values: number[]) => {
  const logs = values.filter(value => value > 0).map(Math.log2), low = Math.floor(Math.min(0, ...logs)), high = Math.ceil(Math.max(0, ...logs));
  return [low, Math.max(high, low + 1)] as const;
};
const powerText = (value: number) => value < 1 ? `1/${Math.round(1 / value)}` : String(value);

/** From the slowest run to the quickest, of what was made of their median; null: there is but one. */
function spread(point: Point, value: number | null): [number, number] | null {
  const { seconds: median, least_seconds: least, most_seconds: most } = point;
  return value === null || median === null || !least || !most || point.runs < 2 ? null : [value * median / most, value * median / least];
}
const SERIF = 4; // CSS pixels to each side of the end of such a bar

/** A curve by uPlot, with a bar from the slowest run to the quickest; what would be ideal is dashed. log: a power of two is as high as the next, so that it is a straight line. */
function Curve({ points, by, value, ideal, label, colours, log }: { points: Point[]; by: By; value: (point: Point) => number | null; ideal: (point: Point) => number; label: string; colours: Colours; log?: boolean }) {
  const box = useRef<HTMLDivElement>(null), width = Math.max(240, useWidth(box));
  useLayoutEffect(() => {
    const axis = { stroke: colours.soft, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line, width: 1 }, font: `11px ${FONT}` };
    const values = points.map(value), bars = points.map(point => spread(point, value(point)));
    const all = [...values, ...bars.flat(), ...points.map(ideal)].flatMap(one => one ?? []), [low, high] = powers(all);
    const drawBars = (plot: uPlot) => bars.forEach((bar, i) => {
      if (!bar) return;
      const x = plot.valToPos(points[i]!.width, 'x', true), [slow, quick] = bar.map(end => plot.valToPos(end, 'y', true)) as [number, number], serif = SERIF * devicePixelRatio;
      plot.ctx.beginPath();
      for (const [from, to, at] of [[slow, slow, serif], [slow, quick, 0], [quick, quick, serif]] as const) (plot.ctx.moveTo(x - at, from), plot.ctx.lineTo(x + at, to));
      plot.ctx.strokeStyle = colours.c1;
      plot.ctx.lineWidth = devicePixelRatio;
      plot.ctx.setLineDash([]);
      plot.ctx.stroke();
    });
    const plot = new uPlot({
      width, height: HEIGHT, cursor: { drag: { x: false, y: false } },
      scales: { x: { time: false, distr: 3, log: 2 }, y: log ? { distr: 3, log: 2, range: () => [2 ** low, 2 ** high] } : { range: () => [0, Math.max(1, ...all) * 1.05] } },
      axes: [{ ...axis, label: by, labelSize: 16, size: 28, labelFont: `11px ${FONT}` }, { ...axis, label, labelFont: `11px ${FONT}`, ...(log ? { values: (_plot, splits) => splits.map(powerText) } : {}) }],
      series: [{ label: by }, { label, stroke: colours.c1, width: 2, points: { show: true, size: 7, fill: colours.c1 } }, { label: 'ideal', stroke: colours.soft, dash: [5, 5], width: 1, points: { show: false } }],
      hooks: { draw: [drawBars] },
    }, [points.map(point => point.width), values, points.map(ideal)], box.current!);
    return () => plot.destroy();
  }, [points, by, colours, width]);
  return <div class="scaling-curve" ref={box} role="img" aria-label={`${label} over the number of ${by}; the table has the figures`} />;
}

function drawing(points: Point[], by: By, c: Colours): string {
  const pen = svgPen(900, 340, c.surface), shown = points.filter(point => point.speedup !== null && point.speedup > 0);
  const low = Math.log2(shown[0]?.width ?? 1), high = Math.log2(shown[shown.length - 1]?.width ?? 2), first = shown[0]?.width ?? 1;
  const [least, most] = powers(shown.flatMap(point => [point.speedup!, point.width / first, ...spread(point, point.speedup) ?? []]));
  const x = (n: number) => 60 + (Math.log2(n) - low) / Math.max(1e-9, high - low) * 800, y = (value: number) => 300 - (Math.log2(value) - least) / (most - least) * 260;
  for (let power = least; power <= most; power++) {
    pen.line([60, y(2 ** power), 860, y(2 ** power)], c.line);
    pen.text(powerText(2 ** power), 52, y(2 ** power) + 4, { colour: c.soft, size: 11, align: 'end' });
  }
  for (const point of shown) {
    pen.text(String(point.width), x(point.width), 320, { colour: c.soft, size: 11, align: 'middle' });
    const bar = spread(point, point.speedup)?.map(y), at = x(point.width);
    if (bar) pen.lines([at, bar[0]!, at, bar[1]!, ...bar.flatMap(end => [at - SERIF, end, at + SERIF, end])], c.c1, 1, 1);
    pen.text(digits(point.speedup!, 2), at, (bar?.[1] ?? y(point.speedup!)) - 8, { colour: c.ink, size: 11, align: 'middle' });
  }
  pen.text(`speed-up over ${by}; dashed: ideal; bars: from the slowest run to the quickest`, 60, 22, { colour: c.ink, size: 13 });
  pen.line([60, 300, 860, 300], c.edge);
  pen.line(shown.flatMap(point => [x(point.width), y(point.width / first)]), c.soft, 1, [5, 5]);
  pen.line(shown.flatMap(point => [x(point.width), y(point.speedup!)]), c.c1, 2);
  return pen.svg();
}

function Curves({ series, of }: { series: Series; of: string }) {
  const colours = useColours(), { by } = series, points = useMemo(() => series.tasks.map(task => ({ ...task, width: task[by] ?? task.processes })), [series]);
  const first = points.find(point => point.seconds !== null)?.width ?? 1;
  return (
    <PictureFrame title={points[0]!.name || 'Series'} of={of.split(',')[0]!} verdict={series.verdict} about="Seconds are the median of the runs; bars reach from the slowest to the quickest. Speed-up is over the fewest of them; efficiency is the share of what is ideal, which is dashed." picture={{
      name: 'scaling', svg: paper => drawing(points, by, paper),
      table: () => ({ columns: ['task', by, 'runs', 'seconds', 'least_seconds', 'most_seconds', 'speedup', 'efficiency'], rows: points.map(point => [point.id, point.width, point.runs, point.seconds, point.least_seconds, point.most_seconds, point.speedup, point.efficiency]) }),
    }}>
      <div class="scaling">
        <Curve log points={points} by={by} colours={colours} label="speed-up" value={point => point.speedup} ideal={point => point.width / first} />
        <Curve points={points} by={by} colours={colours} label="efficiency in %" value={point => point.efficiency === null ? null : point.efficiency * 100} ideal={() => 100} />
      </div>
      <Table label="The series" rows={points} rowKey={point => point.id} columns={[
        { key: 'n', title: by === 'threads' ? 'Threads' : 'Processes', number: true, cell: point => point.width, value: point => point.width },
        { key: 'seconds', title: 'Seconds', number: true, cell: point => point.seconds === null ? '–' : seconds(point.seconds), value: point => point.seconds },
        { key: 'apart', title: 'Runs took', number: true, wide: true, about: 'the quickest and the slowest of them', cell: point => point.runs < 2 ? '–' : `${seconds(point.least_seconds!)} to ${seconds(point.most_seconds!)}`, value: point => point.runs < 2 ? null : point.most_seconds! - point.least_seconds! },
        { key: 'speedup', title: 'Speed-up', number: true, cell: point => point.speedup === null ? '–' : digits(point.speedup, 2), value: point => point.speedup },
        { key: 'efficiency', title: 'Efficiency', number: true, cell: point => point.efficiency === null ? '–' : `${digits(point.efficiency * 100, 1)} %`, value: point => point.efficiency },
        { key: 'runs', title: 'Runs', number: true, wide: true, cell: point => point.runs, value: point => point.runs },
        ...(points.some(point => point.node_shared) ? [{ key: 'node', title: 'Node', about: 'shared: others had processors of it during a run, so its figures say little', cell: (point: Point) => point.node_shared && <span class="tag">shared</span>, value: (point: Point) => Number(point.node_shared) }] : []),
        { key: 'task', title: 'Task', wide: true, fill: true, cell: point => <a href={href(['tasks', point.id])}>{point.id}</a> },
      ]} />
    </PictureFrame>
  );
}
