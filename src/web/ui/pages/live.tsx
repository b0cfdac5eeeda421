// SPDX-License-Identifier: Apache-2.0
// A job that runs: where it is, how far, what it and its nodes do, and what to worry about.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useRecords, type JobRecord, type Report, type Session, type Top } from '../api';
import { Empty, Figure, Figures, More, Notice, Progress, Unit } from '../design/parts';
import { Table, type Column } from '../design/table';
import * as format from '../format';
import { Control } from './control';
import { Curves } from './curves';
import { hasSamples, Hottest } from './hottest';
import { idle, Model, modelTypes, Series, unmatched, type Curve, type CurveName } from './series';
import { alike, growthText, isQuiet, stillOf, timesText, type Still } from './verdict';
import { Why } from './why';

/** The records of the job as they come; drawn again at most four times a second. */
function useModel(id: string) {
  const model = useRef<Model>();
  model.current ??= new Model();
  const [version, set] = useState(0);
  const due = useRef(0), skipped = useRef(false);
  const soon = () => (due.current ||= window.setTimeout(() => ((due.current = 0), set((n) => n + 1)), 250));
  const state = useRecords(id, modelTypes, (record) => (model.current!.take(record), soon()), () => ((skipped.current = true), soon()));
  useEffect(() => {
    const timer = window.setTimeout(() => set((n) => n || 1), 1000); // who cannot follow its records sees the job without them
    return () => clearTimeout(timer);
  }, []);
  return { model: model.current, version, state, skipped: skipped.current };
}

const curveKinds: { name: CurveName; title: string; about?: string; value: (v: number) => string; unit: string; most?: number }[] = [
  { name: 'cpus', title: 'Processors the job uses', value: (v) => format.digits(v, v < 9.95 ? 2 : 1), unit: 'cpus' },
  { name: 'memory', title: 'Memory, sum of all', about: 'pages that they share count for each', value: format.size, unit: 'bytes' },
  { name: 'busy', title: 'Node: processors busy', value: format.share, unit: 'share', most: 1 },
  { name: 'used', title: 'Node: memory used', value: format.share, unit: 'share', most: 1 },
  { name: 'stall', title: 'Node: disk, memory waits', value: format.share, unit: 'share', most: 1 },
  { name: 'disk', title: 'Node: disks', value: format.rate, unit: 'bytes_per_second' },
  { name: 'network', title: 'Node: network', value: format.rate, unit: 'bytes_per_second' },
];

/** A curve without axes: of each its course between the least and the greatest value. */
function SparkLine({ of, least, top }: { of: Series[]; least: number; top: number }) {
  const width = 100, height = 26;
  const from = Math.min(...of.map((series) => series.t[0]!)), to = Math.max(...of.map((series) => series.t[series.t.length - 1]!));
  const points = (series: Series) => series.t.flatMap((t, i) => (series.v[i] == null ? [] : [`${((t - from) / (to - from || 1)) * width},${height - ((series.v[i]! - least) / (top - least || 1)) * (height - 1)}`])).join(' ');
  return (
    <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      {of.slice(0, SPARK_NODES).map((series, i) => <polyline key={i} points={points(series)} />)}
    </svg>
  );
}

/** A curve without axes, of all nodes together: its form, and where it is now, or the most of it. */
function Spark({ title, about, name, curve, value, most, over }: (typeof curveKinds)[number] & { name: CurveName; curve: Curve; over?: boolean }) {
  const nodes = [...curve.values()].filter((series) => series.t.length > 1);
  const greatest = (values: readonly (number | null)[]) => values.reduce<number>((one, v) => Math.max(one, v ?? 0), 0);
  const top = most ?? (Math.max(...nodes.map((series) => greatest(series.v))) || 1);
  const all = name === 'cpus' || name === 'memory'; // of the job: of all its nodes
  const each = nodes.map((series) => (over ? Math.max(greatest(series.v), series.peak) : series.last ?? 0));
  const said = `${over ? 'most ' : ''}${value(all && !over ? each.reduce((sum, one) => sum + one, 0) : Math.max(...each))}${nodes.length > 1 && !(all && !over) ? ', of a node' : ''}`;
  return (
    <div class="spark" title={about}>
      <dt>{title}</dt>
      <dd>
        {said}
        <SparkLine of={nodes} least={0} top={top} />
      </dd>
    </div>
  );
}
const SPARK_NODES = 16;

/** How the job and its nodes are: a row of small curves, and those with axes for who opens it. */
export function Health({ of, model, version, over }: { of: string; model: Model; version: number; over?: boolean }) {
  const [open, setOpen] = useState(false);
  // one point is no curve, and nothing but zeros says nothing
  const shown = curveKinds.filter((k) => [...(model.curves.get(k.name)?.values() ?? [])].some((s) => s.t.length > 1 && s.v.some((v) => v !== null && v > 0)));
  if (!shown.length) return null;
  return (
    <section class="panel" aria-labelledby="health-title">
      <header>
        <h2 id="health-title">Health</h2>
        <button type="button" class="quiet no-print" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? 'Smaller' : 'Larger, with axes'}</button>
      </header>
      {!open && <dl class="sparks">{shown.map((k) => <Spark key={k.name} {...k} curve={model.curves.get(k.name)!} over={over} />)}</dl>}
      {open && <div class="small-multiples">{shown.map((k) => <Curves key={k.name} {...k} of={of} curve={model.curves.get(k.name)!} version={version} over={over} />)}</div>}
    </section>
  );
}

/** What the program says of itself in numbers, such as a loss: where each is now, and its course. */
export function Metrics({ of }: { of: Model['metrics'] }) {
  if (!of.size) return null;
  return (
    <section class="panel" aria-labelledby="metrics-title">
      <h2 id="metrics-title">Metrics</h2>
      <dl class="sparks">
        {[...of].map(([name, series]) => {
          const values = series.v.filter((v) => v !== null), least = Math.min(...values), most = Math.max(...values), number = (v: number) => String(+v.toPrecision(4));
          return (
            <div class="spark" key={name}>
              <dt class="mono">{name}</dt>
              <dd title={`from ${number(least)} to ${number(most)}`}>
                {number(series.last ?? NaN)}
                {values.length > 1 && <SparkLine of={[series]} least={least} top={most} />}
              </dd>
            </div>
          );
        })}
      </dl>
    </section>
  );
}

const standard = (file: string) => file === 'stderr' || file === 'stdout';
/** Is there something to say of logs that stands better in a part of its own? */
const hasLog = ({ lines, logs }: Pick<Model, 'lines' | 'logs'>) => lines.length > 0 || [...logs.values()].some(({ file }) => !standard(file));

/** Lines of logs, commands that failed, what was changed, in their order: a traceback is read from above. The last one is in sight. */
export function Lines({ of: { lines, logs, matched } }: { of: Pick<Model, 'lines' | 'logs' | 'matched'> }) {
  const list = useRef<HTMLOListElement>(null), above = useRef(false);
  useLayoutEffect(() => {
    if (list.current && !above.current) list.current.scrollTop = list.current.scrollHeight;
  });
  if (!hasLog({ lines, logs })) return null;
  return (
    <section class="panel" aria-labelledby="log-title">
      <h2 id="log-title">Log</h2>
      {lines.length ? (
        <ol class="log" tabIndex={0} aria-label="Log of the job" ref={list} onScroll={({ currentTarget: one }) => void (above.current = one.scrollTop + one.clientHeight < one.scrollHeight - 4)}>
          {lines.map((line, i) => (
            <li key={i} class={line.level}>
              <time>{format.seconds(line.t)}</time>
              <span>
                <span class="soft">{line.from}: </span>
                {line.text}
              </span>
            </li>
          ))}
        </ol>
      ) : <p class="soft">{unmatched(logs)}</p>}
      {idle(logs, matched).map(({ name, expression }) => (
        <p class="soft" key={`${name} ${expression}`}>
          No line of {name} matched <code>{expression}</code>.
        </p>
      ))}
    </section>
  );
}

/** What the page has nothing of, and how the next run has it: no empty parts above. */
export function NotHere({ model, functions }: { model: Pick<Model, 'lines' | 'logs'>; functions: boolean }) {
  const log = !hasLog(model);
  if (!log && functions) return null;
  return (
    <section class="not-here no-print" aria-label="What is not here">
      {!functions && <p>No functions are recorded. The next run can have them: of a program compiled for it by <code>scry run --trace 'fn:*'</code>, of Python by <code>--script calls</code>.</p>}
      {log && <p>{unmatched(model.logs)} To follow lines of your own: <code>scry run --log FILE=REGEX</code></p>}
    </section>
  );
}

type TopFunction = NonNullable<Top['functions']>[number];
const FEW = 14;
export interface FunctionRow { name: string; file: string; line: number; calls: number; self_ns: number; total_ns: number }
export function Functions({ of, rows }: { of: string; rows: FunctionRow[] }) {
  const [most, setMost] = useState(FEW);
  const all = rows.reduce((sum, f) => sum + f.self_ns, 0) || 1;
  const columns: Column<FunctionRow>[] = [
    { key: 'function', title: 'Function', fill: true, cell: (f) => <span class="mono" title={`${f.name}${f.file && `, ${f.file}:${f.line}`}`}>{f.name}</span>, value: (f) => f.name },
    { key: 'share', title: 'Self', number: true, value: (f) => f.self_ns, cell: (f) => (
      <>
        <span class="cell-share" style={{ width: `${Math.round((f.self_ns / all) * 64)}px` }} />
        {format.share(f.self_ns / all)}
      </>
    ) },
    { key: 'self', title: 'Self time', number: true, value: (f) => f.self_ns, cell: (f) => <Unit text={format.ns(f.self_ns)} /> },
    { key: 'total', title: 'Total', number: true, wide: true, value: (f) => f.total_ns, cell: (f) => <Unit text={format.ns(f.total_ns)} /> },
    { key: 'calls', title: 'Calls', number: true, value: (f) => f.calls, cell: (f) => f.calls > 0 && format.count(f.calls) },
    { key: 'where', title: 'Source', wide: true, cell: (f) => f.file && <span class="mono soft">{format.base(f.file)}:{f.line}</span>, value: (f) => f.file },
  ];
  return (
    <section class="panel" aria-label="Functions">
      <header>
        <h2>Hottest functions</h2>
        <span class="soft">{of}</span>
      </header>
      <Table label="Functions, most time of their own first" columns={columns.filter((c) => c.key !== 'where' || rows.some((f) => f.file))} rows={rows.length > FEW + 3 ? rows.slice(0, most) : rows} rowKey={(f) => `${f.name} ${f.file} ${f.line}`} sortParam="functions" sort="-share" />
      {rows.length > FEW + 3 && most === FEW && (
        <button type="button" class="quiet" onClick={() => setMost(Infinity)}>
          All {format.count(rows.length)} functions
        </button>
      )}
    </section>
  );
}

type Rank = Top['ranks'][number];
/** As scry top says it. */
const doingText = ({ doing, state, fault, old_seconds }: Rank) => `${doing ?? state.replace('_', ' ')}${fault ? `: ${fault}` : ''}${old_seconds > 0 ? ` (${format.seconds(old_seconds)} ago)` : ''}`;
function Ranks({ ranks }: { ranks: Rank[] }) {
  const share = (r: Rank) => r.recent_mpi_share ?? r.mpi_share;
  const columns: Column<Rank>[] = [
    { key: 'rank', title: 'Rank', number: true, cell: (r) => r.rank, value: (r) => r.rank },
    { key: 'node', title: 'Node', wide: true, cell: (r) => r.host, value: (r) => r.host },
    { key: 'mpi', title: 'In MPI', number: true, value: share, about: 'share of the time, lately', cell: (r) => share(r) !== null && (
      <>
        <span class="cell-share" style={{ width: `${Math.round(share(r)! * 48)}px` }} />
        {format.share(share(r)!)}
      </>
    ) },
    { key: 'doing', title: 'Doing', fill: true, cell: (r) => <span title={doingText(r)}>{doingText(r)}</span>, value: (r) => r.doing ?? r.state },
    { key: 'since', title: 'For', about: 'how long it has done so', number: true, cell: (r) => <Unit text={format.seconds(r.since_seconds)} />, value: (r) => r.since_seconds },
  ];
  return (
    <section class="panel" aria-label="Ranks">
      <header>
        <h2>Ranks</h2>
        <span class="soft">{ranks.length} of MPI</span>
      </header>
      <Table label="Ranks of MPI" columns={columns} rows={ranks} rowKey={(r) => `${r.mpi_job} ${r.rank} ${r.pid}`} sortParam="ranks" sort="rank" />
    </section>
  );
}

function Processes({ processes }: { processes: Top['processes'] }) {
  type P = Top['processes'][number];
  const columns: Column<P>[] = [
    { key: 'pid', title: 'Process', number: true, cell: (p) => p.pid, value: (p) => p.pid },
    { key: 'name', title: 'Command', fill: true, cell: (p) => <span class="mono" title={p.argv ? format.command(p.argv) : ''}>{p.argv ? format.command(p.argv) : p.name}</span>, value: (p) => p.name },
    { key: 'cpu', title: 'CPU time', number: true, cell: (p) => <Unit text={format.seconds(p.cpu_seconds)} />, value: (p) => p.cpu_seconds },
    { key: 'memory', title: 'Memory', about: 'the most until now', number: true, cell: (p) => p.peak_rss_bytes > 0 && <Unit text={format.size(p.peak_rss_bytes)} />, value: (p) => p.peak_rss_bytes },
    { key: 'threads', title: 'Threads', number: true, wide: true, cell: (p) => p.threads, value: (p) => p.threads },
  ];
  if (processes.some((p) => p.node)) columns.push({ key: 'node', title: 'Node', wide: true, cell: (p) => p.node, value: (p) => p.node });
  return (
    <section class="panel" aria-label="Processes">
      <h2>Processes</h2>
      <Table label="Processes that live" columns={columns} rows={processes} rowKey={(p) => `${p.node} ${p.pid}`} sortParam="processes" sort="-cpu" />
    </section>
  );
}

const PLACES = 6; // of shells, and of Python, the newest
type ScriptLine = Extract<JobRecord, { type: 'script_line' }>;
type PythonStack = Extract<JobRecord, { type: 'python_stack' }>;
function Places({ top, model }: { top: Top; model: Model }) {
  // until the records have come, what scry top said; of Python its stack has the line as well
  const scripts = model.seconds ? [...model.places].filter(([process]) => !model.pythons.has(process)).map(([, place]) => place) : (top.layers.scripts as ScriptLine[]);
  const pythons = model.seconds ? [...model.pythons.values()] : (top.layers.python as PythonStack[]).filter((p) => p.type === 'python_stack');
  if (!scripts.length && !pythons.length) return null;
  return (
    <section class="panel" aria-labelledby="places-title">
      <h2 id="places-title">Where it is</h2>
      <ul class="places">
        {scripts.slice(-PLACES).reverse().map((s) => (
          <li key={`${s.node} ${s.pid}`}>
            <div class="what">{s.command || s.function || '…'}</div>
            <div class="where">
              {s.file}:{s.line ?? '?'} {s.function ? `in ${s.function} ` : ''}for {format.seconds(Math.max(0, Math.max(top.wall_seconds, model.seconds) - (s.time ?? s.t)))}
            </div>
          </li>
        ))}
        {pythons.slice(-PLACES).reverse().map((p) => {
          const frames = p.threads[0]?.frames ?? [];
          return (
            <li key={`${p.node} ${p.pid}`}>
              <div class="what">{frames[0]?.function ?? 'Python'}</div>
              <div class="where">{frames.slice(0, 3).map((f) => `${f.file}:${f.line}`).join(' ← ')}</div>
            </li>
          );
        })}
      </ul>
      <More than={Math.min(PLACES, scripts.length) + Math.min(PLACES, pythons.length)} of={scripts.length + pythons.length} />
    </section>
  );
}

function ProgressPanel({ top, model }: { top: Top; model: Model }) {
  const told = [...model.progress.values()];
  const rows = told.length
    ? told.map((p) => ({ source: p.source, done: p.done, total: p.total, share: p.total > 0 ? p.done / p.total : null, left: p.left_seconds == null ? null : p.left_seconds - (Math.max(model.seconds, top.wall_seconds) - p.t) }))
    : top.layers.progress.map((p) => ({ ...p, left: p.left_seconds }));
  return (
    <>
      {rows.map((p) => (
        <section class="panel" key={p.source} aria-label={`Progress, as ${p.source} says`}>
          <header>
            <h2>
              {p.share !== null ? format.share(p.share) : 'Progress'}
              {p.left !== null && p.left > 0 && <span class="soft"> about {format.seconds(p.left)} left</span>}
            </h2>
            <span class="soft">
              {p.total > 0 ? `${p.done} of ${p.total}` : p.done}, as {format.base(p.source)} says
            </span>
          </header>
          <Progress share={p.share} label={`progress, as ${p.source} says`} />
        </section>
      ))}
    </>
  );
}

type Warning = Extract<JobRecord, { type: 'warning' }>;
const WARNINGS = 3, SILENT = 3;

/** That it stands still, and why. */
function Verdict({ now, still, model, quiet, stuck, short }: { now: number; still: Still | undefined; model: Model; quiet: Warning | undefined; /** It is known why. */ stuck: Warning | undefined; /** What each rank waits for stands below. */ short: boolean }) {
  const idleSeconds = (since: Warning) => now - since.t + Number(since.fields?.seconds ?? 0);
  return (
    <>
      {still?.now && (
        <Notice tone="bad" live title={<span class="reason">It stands still. {format.sentence(still.finding)}</span>}>
          {!short && still.lines.length > 0 && <ul class="why">{still.lines.map((line, i) => <li key={i}>{line}</li>)}</ul>}
          <p>No rank has moved for {format.seconds(now - still.since)}.</p>
        </Notice>
      )}
      {still && !still.now && <Notice title={`It stood still for ${format.seconds(model.stall!.seconds)}, at ${format.seconds(model.stall!.t)}, and has moved since.`} advice={format.sentence(still.finding)} />}
      {stuck && <Notice tone="bad" live title={<span class="reason">It stands still. {format.sentence(stuck.text)}</span>}>{quiet && <p>It has not moved for {format.seconds(idleSeconds(quiet))}.</p>}</Notice>}
      {quiet && !stuck && <Notice tone="bad" live title={<span class="reason">It has stood still for {format.seconds(idleSeconds(quiet))}</span>} advice={format.sentence(quiet.text.replace(/^idle for [^:]*: /, ''))} />}
    </>
  );
}

export function Live({ id, top, session, name }: { id: string; top: Top; session: Session; name: string }) {
  const { model, version, state, skipped } = useModel(id);
  const shares = top.ranks.map((r) => r.recent_mpi_share ?? r.mpi_share).filter((s) => s !== null);
  const functions = (top.functions ?? []) as TopFunction[];
  const warnings = model.seconds || !top.layers.warning ? model.warnings : [top.layers.warning as Warning];
  const [quiet, stuck] = ['stands_still', 'stuck'].map((note) => warnings.filter((w) => w.note === note && model.moved <= w.t).pop());
  const now = Math.max(top.wall_seconds, model.seconds), still = model.stall && stillOf(model.stall, top.ranks, now);
  const stops = version > 0 && (!!quiet || !!stuck || isQuiet(top.ranks, model.moved, model.seconds, now));
  const why = <Why key="why" id={id} mpi={top.ranks.length > 0} still={stops} told={still?.now ? still.finding : stuck?.text} />;
  if (!version) return <p class="waiting" role="status">Reading what it did so far …</p>; // what it has to say first comes with them
  return (
    <>
      <Verdict now={now} still={still} model={model} quiet={quiet} stuck={still?.now ? undefined : stuck} short={stops} />
      {stops && why}
      {(top.silent ?? []).slice(0, SILENT).map(({ node, seconds }) => <Notice key={node} tone="warn" title={`${node} has not been heard for ${format.seconds(seconds)}.`} advice="What is said of it is as it last was." />)}
      <More than={SILENT} of={top.silent?.length ?? 0} />
      {alike(warnings.filter((w) => w !== quiet && !((still || stops) && w.kind === 'stalled'))).slice(0, WARNINGS).map((w) => <Notice key={w.text} tone="warn" title={format.sentence(w.text)} advice={timesText(w.times)} />)}
      <ProgressPanel top={top} model={model} />
      <div class="panel">
        <Figures>
          <Figure text={format.seconds(Math.max(top.wall_seconds, model.seconds))} label="so far" />
          <Figure text={format.digits(top.tree.cpu_share, 2)} label="processors busy" />
          <Figure text={format.seconds(top.tree.cpu_seconds)} label="CPU time" />
          <Figure text={format.size(top.tree.memory_bytes ?? top.tree.rss_bytes)} label="memory" />
          <Figure text={format.count(top.tree.processes)} label="processes" />
          <Figure text={format.count(top.tree.threads)} label="threads" />
          {shares.length > 0 && <Figure text={format.share(shares.reduce((a, b) => a + b, 0) / shares.length)} label="of ranks’ time in MPI" />}
        </Figures>
        {top.growth && <p>{format.sentence(growthText(top.growth))}</p>}
        {state === 'retrying' && model.seconds > 0 && <p class="soft" role="status">The stream of records broke; it goes on where it was.</p>}
        {skipped && <p class="soft">Not all records came to this page: curves and log have gaps. <code>scry report</code> has all.</p>}
      </div>
      <div class="columns">
        <Places top={top} model={model} />
        {top.ranks.length > 0 && <Ranks ranks={top.ranks} />}
        {functions.length > 0 ? <Functions of="of processes that live" rows={functions} /> : hasSamples(top.profile) && <Hottest id={id} profile={top.profile} />}
        <Lines of={model} />
      </div>
      <Metrics of={model.metrics} />
      <Health of={name} model={model} version={version} />
      {top.processes.length > 0 ? <Processes processes={top.processes} /> : <Empty title="No process lives at the moment." />}
      {!stops && why}
      {session.rights.includes('control') && <Control id={id} />}
      <NotHere model={model} functions={functions.length > 0 || hasSamples(top.profile)} />
    </>
  );
}

/** The figures of a report, in the curves of a model: of each node the greatest in each window. */
export function modelOfReport(report: Report): Model {
  const model = new Model();
  const put = (name: CurveName, node: string, offset: number, window: number, values: readonly (number | null)[]) => {
    let curve = model.curves.get(name);
    if (!curve) model.curves.set(name, (curve = new Map()));
    const series = new Series();
    values.forEach((v, i) => v !== null && series.push(offset + (i + 0.5) * window, v));
    curve.set(node, series);
    return series;
  };
  const add = (part: Pick<Report, 'timeline' | 'health' | 'node'>, node: string, offset: number, peak: number) => {
    put('cpus', node, offset, part.timeline.cpus.window_seconds, part.timeline.cpus.max);
    put('memory', node, offset, part.timeline.rss_bytes.window_seconds, part.timeline.rss_bytes.max).peak = peak;
    const named: Record<string, (typeof part.health.curves)[number] | undefined> = Object.fromEntries(part.health.curves.map((c) => [c.name, c]));
    // as a running job has them; of two the greatest of a window need not be of one moment: their sum is the most that it can have been
    const sum = (a: number, b: number) => a + b;
    for (const [name, of, join] of [['busy', ['cpu'], sum], ['used', ['memory'], sum], ['stall', ['pressure_io', 'pressure_memory'], Math.max],
      ['disk', ['disk_read_bytes', 'disk_written_bytes'], sum], ['network', ['received_bytes', 'sent_bytes'], sum]] as const) {
      const curves = of.flatMap((one) => named[one] ?? []), first = curves[0];
      if (first) put(name, node, offset, first.window_seconds, first.max.map((_, i) => curves.map((curve) => curve.max[i] ?? null).reduce((a, b) => (a === null ? b : b === null ? a : join(a, b)))));
    }
  };
  add(report, report.node?.host ?? report.host, 0, report.peak_tree_rss_bytes);
  for (const metric of report.logs.metrics) metric.course.seconds.forEach((t, i) => model.metric(metric.name, t ?? 0, metric.course.values[i] ?? 0));
  for (const part of report.parts) add(part, part.name, part.started_at, part.job.peak_tree_rss_bytes);
  return model;
}
