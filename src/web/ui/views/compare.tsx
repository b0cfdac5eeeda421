// SPDX-License-Identifier: Apache-2.0
// Two runs side by side: what changed in each function, call of MPI and figure.
import { useMemo } from 'preact/hooks';
import { ask, jobPath, query, taskPath, useAnswer, useTasks } from '../api';
import type { Job, Ps, Report, ReportDiff, Task } from '../api';
import { useColours } from '../design/colours';
import type { Colours } from '../design/colours';
import { Answered, Choice, Empty, More, Notice } from '../design/parts';
import { Table } from '../design/table';
import { useDoing } from '../doing';
import { base, count, digits, moment, ns, seconds, share, size } from '../format';
import { title as jobTitle } from '../pages/jobs';
import { outcome, State } from '../pages/status';
import { PictureFrame, svgPen } from '../pictures';
import { go, href, setParams, useParam } from '../state';
import { runOf, taskTitle } from '../tasks/list';
import { useWithoutSetup } from './parts';
import { changeOf, greatest, isSetup } from './profile';
import { Strip } from './strip';

export function Compare() {
  const [a] = useParam('a'), [b] = useParam('b');
  return (
    <>
      <h1>Two runs</h1>
      <Choose a={a} b={b} />
      {a && b ? <Both key={`${a},${b}`} a={a} b={b} /> : <Empty title="Two jobs are compared." command="scry diff JOB JOB">Choose both above. On the command line, this says the same:</Empty>}
    </>
  );
}

function Choose({ a, b }: { a: string; b: string }) {
  const jobs = useAnswer<Ps>(`jobs${query({ limit: 200 })}`);
  const tasks = useTasks(), { said, doIt } = useDoing();
  const title = (job: Job) => `${jobTitle(job)}, ${job.started_seconds === undefined ? '' : moment(job.started_seconds)} · ${job.id}`;
  // of a task its last good run is meant
  const take = (name: 'a' | 'b', value: string) => doIt(async () => {
    const task = value.startsWith('task:') ? value.slice('task:'.length) : '';
    const job = task ? runOf(await ask<Task>(taskPath(task)))?.job : value;
    if (job === undefined || job === null)
      throw new Error('This task has not run yet: there is nothing to compare.');
    return () => setParams({ [name]: job });
  });
  const ran = tasks.value?.filter(task => task.runs_done > 0) ?? [];
  const one = (name: 'a' | 'b', value: string) => (
    <label><span>{name === 'a' ? 'A, the first' : 'B, the second'}</span> <select value={value} onChange={e => take(name, e.currentTarget.value)}>
      <option value="">…</option>
      {value && !jobs.value?.jobs.some(job => job.id === value) && <option value={value}>{value}</option>}
      {ran.length > 0 && <optgroup label="Tasks, by their last good run">{ran.map(task => <option key={task.id} value={`task:${task.id}`}>{`${taskTitle(task)}, ${task.processes} ${task.processes === 1 ? 'process' : 'processes'}, ${moment(task.created_seconds)} · ${task.id}`}</option>)}</optgroup>}
      <optgroup label="Jobs">{jobs.value?.jobs.map(job => <option key={job.id} value={job.id}>{title(job)}</option>)}</optgroup>
    </select>{value && <a href={href(['jobs', value])}>the job</a>}</label>
  );
  return <>
    <form class="compare-choose" onSubmit={e => e.preventDefault()}>{one('a', a)}{one('b', b)}<button type="button" onClick={() => setParams({ a: b, b: a })}>Swap</button></form>
    {said && <Notice live tone={said.tone} title={said.text} />}
  </>;
}

const VALUE_TEXT = (name: string, value: number) => name.endsWith('_seconds') ? seconds(value) : name.endsWith('bytes') ? size(value) : name === 'share' ? share(value) : name.endsWith('_ns') ? ns(value) : count(value);
const titles: Record<string, string> = {
  wall_seconds: 'Wall time', cpu_seconds: 'CPU time', peak_rss_bytes: 'Largest process', peak_tree_rss_bytes: 'Memory, all at once', peak_tree_pss_bytes: 'Memory, all at once', process_count: 'Processes', threads_at_once: 'Threads at once',
  outcome: 'Outcome', ranks: 'Ranks', run_ns: 'Run time of all ranks', communication_ns: 'of it, communication', share: 'Share in MPI', messages: 'Messages', bytes: 'Bytes of them', waited_ns: 'Lost waiting for other ranks',
};
const plain = (name: string) => titles[name] ?? name.replace(/_(seconds|bytes|ns)$/, '').replaceAll('_', ' ');
const ratioText = (a: number, b: number) => a > 0 ? `${digits(b / a, 2)} ×` : b > 0 ? 'new' : '';
const Ratio = ({ a, b, most }: { a: number; b: number; most?: number }) => <span class={`change ${changeOf(a, b, most)}`}>{ratioText(a, b)}</span>;
/** "+1.20 ms", as most changed. */
const Change = ({ a, b, most, text }: { a: number; b: number; most: number; text: (value: number) => string }) =>
  <span class={`change ${changeOf(a, b, most)}`}>{`${b > a ? '+' : b < a ? '−' : ''}${text(Math.abs(b - a))}`}</span>;
const mostChanged = <T,>(rows: readonly T[], a: (row: T) => number, b: (row: T) => number) => rows.reduce((most, row) => Math.max(most, Math.abs(b(row) - a(row))), 0);
/** Of these, more is no worse than less. */
const NEUTRAL: ReadonlySet<string> = new Set(['process_count', 'threads_at_once', 'ranks', 'messages', 'bytes']);
const OUTCOME = 'outcome';
/** How far apart they are, whichever is greater; what has no ratio comes last. */
const apart = (ratio: number | null) => ratio === null || ratio <= 0 ? null : Math.abs(Math.log(ratio));

function Both({ a, b }: { a: string; b: string }) {
  const answer = useAnswer<ReportDiff>(`compare${query({ jobs: `${a},${b}` })}`);
  return <Answered of={answer} wait="Comparing …">{diff => <><Values diff={diff} /><FunctionDiff diff={diff} /><MpiDiff diff={diff} /></>}</Answered>;
}

function Values({ diff }: { diff: ReportDiff }) {
  const shared = diff.values.some(one => one.name === 'peak_tree_pss_bytes'); // in which pages that processes share count once
  const rows: { name: string; a: number | null; b: number | null; ratio: number | null }[] = [{ name: OUTCOME, a: null, b: null, ratio: null }, ...diff.values.filter(one => one.name !== 'peak_tree_rss_bytes' || !shared), ...(diff.mpi?.values ?? [])];
  const cell = (row: (typeof rows)[number], of: 'a' | 'b') => row.name === OUTCOME ? <State of={outcome(diff[of])} /> : row[of] === null ? '–' : VALUE_TEXT(row.name, row[of]);
  return (
    <PictureFrame title="The whole job" of={`${diff.a.id}-${diff.b.id}`} verdict={diff.verdict} picture={{ name: 'values', svg: null, table: () => ({ columns: ['name', 'a', 'b', 'ratio'], rows: rows.map(row => row.name === OUTCOME ? [row.name, outcome(diff.a).text, outcome(diff.b).text, null] : [row.name, row.a, row.b, row.ratio]) }) }}>
      <div class="compare-figures">
      <Table label="Figures of both" rows={rows} rowKey={row => row.name} sortParam="vs" columns={[
        { key: 'name', title: 'Figure', cell: row => plain(row.name), value: row => row.name },
        { key: 'a', title: 'A', number: true, cell: row => cell(row, 'a') },
        { key: 'b', title: 'B', number: true, cell: row => cell(row, 'b') },
        { key: 'ratio', title: 'Ratio', number: true, about: 'B of A; sorted by how far they are apart', cell: row => row.ratio === null ? '' : <span class={`change ${NEUTRAL.has(row.name) ? '' : changeOf(row.a, row.b)}`}>{digits(row.ratio, 2)} ×</span>, value: row => row.name === OUTCOME ? Infinity : apart(row.ratio) },
      ]} />
      </div>
    </PictureFrame>
  );
}

type FunctionRow = ReportDiff['functions'][number];
type Measure = 'self_ns' | 'total_ns' | 'calls';

function FunctionDiff({ diff: every }: { diff: ReportDiff }) {
  const [key, setKey] = useParam('m', 'self_ns');
  const [scope, setScope] = useParam('over', 'sum');
  const measure = key as Measure, text = measure === 'calls' ? count : ns;
  const value = (row: FunctionRow, of: 'a' | 'b') => row[of]?.[measure] ?? 0;
  const setup = useWithoutSetup(every.functions.some(row => isSetup(row.name)));
  const diff = useMemo(() => setup.out ? { ...every, functions: every.functions.filter(row => !isSetup(row.name)) } : every, [every, setup.out]);
  const leftOut = (of: 'a' | 'b') => text(every.functions.reduce((sum, row) => sum + (isSetup(row.name) ? value(row, of) : 0), 0));
  const changed = mostChanged(diff.functions, row => value(row, 'a'), row => value(row, 'b'));
  const most = diff.functions.reduce((greatest, row) => Math.max(greatest, value(row, 'a'), value(row, 'b')), 1);
  const table = () => ({ columns: ['function', 'file', `a_${measure}`, `b_${measure}`], rows: diff.functions.map(row => [row.name, row.file, row.a?.[measure] ?? null, row.b?.[measure] ?? null]) });
  const svg = (c: Colours) => {
    const pen = svgPen(1000, 46 + diff.functions.length * 30, c.surface);
    pen.text(`${plain(measure)}: ${diff.a.id} and ${diff.b.id}${setup.out ? ', without MPI_Init and MPI_Finalize' : ''}`, 12, 24, { colour: c.ink, size: 14, weight: 600 });
    diff.functions.forEach((row, i) => {
      const y = 40 + i * 30;
      pen.clip(0, y, 254, 30);
      pen.text(row.name, 12, y + 17, { colour: c.ink, mono: true });
      pen.unclip();
      (['a', 'b'] as const).forEach((of, k) => {
        pen.rect(260, y + 2 + k * 12, value(row, of) / most * 600, 11, k ? c.c2 : c.c1);
        pen.text(text(value(row, of)), 988, y + 12 + k * 12, { colour: c.ink, size: 11, align: 'end' });
      });
    });
    return pen.svg();
  };
  if (!every.functions.length)
    return <Empty title="Neither run recorded functions." command="scry run --trace 'fn:*' -- ./program">With a trace of each, they are compared function by function:</Empty>;
  return (
    <PictureFrame title="Functions" of={`${diff.a.id}-${diff.b.id}`} picture={{ name: `functions-${measure}${setup.out ? '-without-setup' : ''}`, svg, table }} about={<>Of both the hottest, those that changed most first. <span class="no-print">A click shows one in space and time.</span>{scope === 'sum' && <span class="legend"><span><i class="a" />A</span><span><i class="b" />B</span></span>}</>}
      controls={<><Choice label="Measure" value={measure} of={[['self_ns', 'Self time'], ['total_ns', 'Total time'], ['calls', 'Calls']]} onChange={setKey} /><Choice label="Ranks" value={scope as 'sum' | 'ranks'} of={[['sum', 'All ranks'], ['ranks', 'By rank']]} onChange={setScope} />{setup.control}</>}>
      {setup.told(`${leftOut('a')} of the first, ${leftOut('b')} of the second.`)}
      {scope === 'ranks' ? <ByRank diff={diff} measure={measure} /> : (
        <Table label="Functions of both" rows={diff.functions} rowKey={row => `${row.name} ${row.file} ${row.a?.line} ${row.b?.line}`} sort="-change" onOpen={row => go(['jobs', row.b ? diff.b.id : diff.a.id, 'space'], { q: row.name })} columns={[
          { key: 'name', title: 'Function', cell: row => <span class="measured-name">{row.name} <small>{base(row.file)}</small></span>, value: row => row.name },
          { key: 'bar', title: 'Compared', wide: true, cell: row => <span class="compare-bars"><i class="a" style={{ width: `${100 * value(row, 'a') / most}%` }} /><i class="b" style={{ width: `${100 * value(row, 'b') / most}%` }} /></span> },
          { key: 'a', title: 'A', number: true, cell: row => row.a ? text(value(row, 'a')) : '–', value: row => value(row, 'a') },
          { key: 'b', title: 'B', number: true, cell: row => row.b ? text(value(row, 'b')) : '–', value: row => value(row, 'b') },
          { key: 'change', title: 'Change', number: true, cell: row => <Change a={value(row, 'a')} b={value(row, 'b')} most={changed} text={text} />, value: row => Math.abs(value(row, 'b') - value(row, 'a')) },
          { key: 'ratio', title: 'Ratio', number: true, wide: true, cell: row => <Ratio a={value(row, 'a')} b={value(row, 'b')} most={changed} />, value: row => value(row, 'a') > 0 ? value(row, 'b') / value(row, 'a') : null },
        ]} />
      )}
    </PictureFrame>
  );
}

const RANKED_MOST = 40; // functions

/** The ranks of each function in both runs, from the two reports. */
function ByRank({ diff, measure }: { diff: ReportDiff; measure: Measure }) {
  const a = useAnswer<Report>(jobPath(diff.a.id, 'report')), b = useAnswer<Report>(jobPath(diff.b.id, 'report')), colours = useColours();
  const rows = useMemo(() => {
    const of = (report: Report | undefined) => new Map((report?.functions ?? []).map(one => [`${one.name} ${one.file}`, one]));
    const inA = of(a.value), inB = of(b.value);
    const ranks = (one: Report['functions'][number] | undefined) => {
      const list: number[] = [];
      for (const rank of one?.ranks ?? [])
        list[rank.rank] = (list[rank.rank] ?? 0) + rank[measure];
      return Array.from(list, value => value ?? 0);
    };
    return diff.functions.map(row => ({ row, a: ranks(inA.get(`${row.name} ${row.file}`)), b: ranks(inB.get(`${row.name} ${row.file}`)) })).filter(one => one.a.length || one.b.length);
  }, [a.value, b.value, measure, diff]);
  const format = measure === 'calls' ? count : ns, labels = (list: number[]) => list.map((_, i) => `rank ${i}`);
  return (
    <Answered of={a.value ? b : a}>
      {() => rows.length ? (
        <><Table label="Functions of both by rank" rows={rows.slice(0, RANKED_MOST)} rowKey={one => `${one.row.name} ${one.row.file}`} columns={[
          { key: 'name', title: 'Function', cell: one => <span class="measured-name">{one.row.name}</span>, value: one => one.row.name },
          { key: 'strip', title: 'A, each rank', cell: one => one.a.length ? <Strip values={one.a} labels={labels(one.a)} format={format} colours={colours} log={false} scale={Math.max(greatest(one.a), greatest(one.b))} /> : '–' },
          { key: 'stripb', title: 'B, each rank', cell: one => one.b.length ? <Strip values={one.b} labels={labels(one.b)} format={format} colours={colours} log={false} scale={Math.max(greatest(one.a), greatest(one.b))} /> : '–' },
        ]} /><More than={RANKED_MOST} of={rows.length} /></>
      ) : <Empty title="No function of these was called by a rank of MPI." />}
    </Answered>
  );
}

/** Of calls that only ask the library, no time is taken. */
const timed = (total_ns: number) => total_ns > 0 ? ns(total_ns) : '–';

function MpiDiff({ diff }: { diff: ReportDiff }) {
  const every = diff.mpi?.calls ?? [], setup = useWithoutSetup(every.some(row => isSetup(row.name)));
  if (!every.length)
    return null;
  const rows = setup.out ? every.filter(row => !isSetup(row.name)) : every, changed = mostChanged(rows, row => row.a.total_ns, row => row.b.total_ns);
  const leftOut = (of: 'a' | 'b') => ns(every.reduce((sum, row) => sum + (isSetup(row.name) ? row[of].total_ns : 0), 0));
  return (
    <PictureFrame title="Calls of MPI" of={`${diff.a.id}-${diff.b.id}`} controls={setup.control} picture={{ name: 'mpi-calls', svg: null, table: () => ({ columns: ['call', 'a_calls', 'b_calls', 'a_total_ns', 'b_total_ns', 'a_bytes', 'b_bytes'], rows: rows.map(row => [row.name, row.a.calls, row.b.calls, row.a.total_ns, row.b.total_ns, row.a.bytes, row.b.bytes]) }) }}>
      {setup.told(`${leftOut('a')} of the first, ${leftOut('b')} of the second.`)}
      <Table label="Calls of MPI of both" rows={rows} rowKey={row => row.name} sortParam="ms" sort="-change" columns={[
        { key: 'name', title: 'Call', cell: row => <span class="measured-name">{row.name}</span>, value: row => row.name },
        { key: 'ca', title: 'Calls, A', number: true, wide: true, cell: row => count(row.a.calls), value: row => row.a.calls },
        { key: 'cb', title: 'B', number: true, wide: true, cell: row => count(row.b.calls), value: row => row.b.calls },
        { key: 'a', title: 'Time, A', number: true, cell: row => timed(row.a.total_ns), value: row => row.a.total_ns },
        { key: 'b', title: 'B', number: true, cell: row => timed(row.b.total_ns), value: row => row.b.total_ns },
        { key: 'change', title: 'Change', number: true, cell: row => (row.a.total_ns > 0 || row.b.total_ns > 0) && <Change a={row.a.total_ns} b={row.b.total_ns} most={changed} text={ns} />, value: row => Math.abs(row.b.total_ns - row.a.total_ns) },
        { key: 'ratio', title: 'Ratio', number: true, wide: true, cell: row => <Ratio a={row.a.total_ns} b={row.b.total_ns} most={changed} />, value: row => row.a.total_ns ? row.b.total_ns / row.a.total_ns : null },
        { key: 'ba', title: 'Bytes, A', number: true, wide: true, cell: row => row.a.bytes > 0 && size(row.a.bytes), value: row => row.a.bytes },
        { key: 'bb', title: 'B', number: true, wide: true, cell: row => row.b.bytes > 0 && size(row.b.bytes), value: row => row.b.bytes },
      ]} />
    </PictureFrame>
  );
}
