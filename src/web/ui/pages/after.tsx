// SPDX-License-Identifier: Apache-2.0
// A job that is over: how it ended and why, what it used. Of one that failed, the post-mortem comes first.
import { useMemo } from 'preact/hooks';
import type { Report } from '../api';
import { Figure, Figures, Notice, Unit } from '../design/parts';
import { Table, type Column } from '../design/table';
import * as format from '../format';
import { OUTSIDE } from '../space/data';
import { kindOf, sum } from '../views/profile';
import { nameOf } from '../views/samples';
import { hasSamples, Hottest } from './hottest';
import { Functions, Health, Lines, Metrics, modelOfReport, NotHere, type FunctionRow } from './live';
import { logOf } from './series';
import { signalName } from './status';
import { Scripts } from './scripts';
import { LastEvents } from './timeline';
import { alike, growthText, timesText } from './verdict';

type Chain = NonNullable<Report['failed']>['chain'];

const how = (p: Pick<Chain[number], 'signal' | 'exit_code'>) => (p.signal !== null ? `killed by ${signalName(p.signal)}` : p.exit_code !== null ? `exit status ${p.exit_code}` : 'nobody knows how');

function Blame({ chain, node }: { chain: Chain; node?: string }) {
  return (
    <section class="panel" aria-labelledby="blame-title">
      <header>
        <h2 id="blame-title">Order of failures{node ? ` on ${node}` : ''}</h2>
      </header>
      <ol class="blame">
        {chain.map((p, i) => (
          <li key={i}>
            <strong>{p.name}</strong> <span class="bad-text">{how(p)}</span> <span class="soft">ended at {format.seconds(p.end_seconds)}{p.pid ? `, process ${p.pid}` : ''}{p.cwd && i === 0 ? `, in ${p.cwd}` : ''}</span>
            {p.argv && <div class="mono soft">{format.command(p.argv)}{p.argv_cut ? ' …' : ''}</div>}
          </li>
        ))}
      </ol>
    </section>
  );
}

/** With when its process ended. Its own time is only when it was written down. */
type Crash = Report['crashes'][number] & { ended: number | undefined };

function crashesOf(report: Report): Crash[] {
  const of = ({ crashes, processes }: Pick<Report, 'crashes' | 'processes'>, offset: number) => crashes.map((crash) => {
    const end = processes.find(({ pid, signal }) => pid === crash.pid && signal === crash.signal)?.end_seconds;
    return { ...crash, ended: end == null ? undefined : end + offset };
  });
  return [...of(report, 0), ...report.parts.flatMap((part) => of(part, part.started_at))];
}

const CRASHES = 12;

/** Crashes that tell the same are told once: of a program on many ranks, all have crashed. */
function Crashes({ crashes, calls }: { crashes: Crash[]; calls: Report['crash_calls'] }) {
  const traced = (crash: Crash) => calls.filter((one) => one.pid === crash.pid && one.signal === crash.signal);
  const when = (crash: Crash) => {
    const signalled = traced(crash)[0]?.seconds;
    return signalled !== undefined ? `, the signal came at ${format.seconds(signalled)}` : crash.ended !== undefined ? `, ended at ${format.seconds(crash.ended)}` : '';
  };
  const alike = new Map<string, Crash[]>();
  for (const crash of crashes) {
    const key = JSON.stringify([crash.name, crash.signal, crash.reason, crash.frames, traced(crash).map((one) => one.open_calls)]);
    alike.set(key, [...(alike.get(key) ?? []), crash]);
  }
  const all = [...alike.values()];
  return (
    <>
      {all.slice(0, CRASHES).map(([crash, ...others], i) => crash && (
        <section class="panel" key={i} aria-label={`Crash of ${crash.name}`}>
          <header>
            <h2>
              {others.length > 0 && `${others.length + 1} times: `}{crash.name} was killed by {signalName(crash.signal)}
              {crash.reason ? `: ${crash.reason}` : ''}
            </h2>
            <span class="soft" title={others.map((one) => `process ${one.pid}${when(one)}`).join('\n')}>process {crash.pid}{when(crash)}{others.length > 0 && `, and ${others.length} more`}</span>
          </header>
          <Stack crash={crash} open={traced(crash)} />
        </section>
      ))}
      {all.length > CRASHES && <p class="soft">{all.length - CRASHES} other crashes are in <code>scry report</code>.</p>}
    </>
  );
}

function Stack({ crash, open }: { crash: Crash; open: Report['crash_calls'] }) {
  if (crash.frames && crash.frames.length > 0)
    return (
      <ol class="frames">
        {crash.frames.map((f, k) => (
          <li key={k}>
            <span class="mono">{f.function || '?'}</span> <span class="mono soft" title={f.file ? `${f.file}:${f.line}` : undefined}>{f.file ? `${format.base(f.file)}:${f.line}` : f.module && format.base(f.module)}</span>
          </li>
        ))}
      </ol>
    );
  if (!open.length)
    return <p class="soft">{crash.note ? format.sentence(crash.note) : <>Its stack is not known. A next run can have it: <code>scry run --crash-stack</code></>}</p>;
  return (
    <>
      {open.map((one) => (
        <div key={one.thread}>
          <p class="soft">Calls that were open{one.thread !== one.pid && ` in thread ${one.thread}`}, the innermost first</p>
          <ol class="frames">{one.open_calls.map((call, k) => <li key={k} class="mono">{call}</li>)}</ol>
        </div>
      ))}
    </>
  );
}

/** Why it failed, or what its exit status hides; of one that ended well, what its time went into. */
function Verdict({ report, cause }: { report: Report; cause: string | null }) {
  const reason = report.last?.reason, known = reason && reason.note !== 'cause_unknown';
  if (known) return <Notice tone="bad" title={<span class="reason">{reason.sure ? 'The reason' : 'The most probable reason'}: {reason.text.replace(/^probably /, '')}</span>} advice={reason.sure ? undefined : 'This follows from what was recorded; it need not be the cause.'} />;
  if (report.status === 'lost') return <Notice tone="bad" title="It was lost: neither the command nor its scry run is there any more, and no end was recorded." />;
  const unknown = report.last?.unknown?.replace(/^nothing that was recorded says why(; )?/, '');
  const advice = unknown ? format.sentence(unknown) : <>More is known of a run with <code>scry run --trace 'fn:*' --log FILE</code>.</>;
  if (report.last) return <Notice tone="bad" title={reason ? <span class="reason">It failed: {reason.text}</span> : 'It failed, and nothing that was recorded says why.'} advice={advice} />;
  if (cause) return <Notice tone="warn" title={<span class="reason">{format.sentence(cause)}</span>} />;
  const first = report.functions[0], all = report.functions.reduce((sum, one) => sum + one.self_ns, 0);
  const { profile } = report, sampled = hasSamples(profile) ? profile.functions.find((one) => one.self_samples > MUCH * profile.samples) : undefined;
  const text = report.mpi?.summary ?? (first && first.self_ns > MUCH * all ? `${format.share(first.self_ns / all)} of the time of its functions was in ${first.name}`
    : profile && sampled ? `${format.share(sampled.self_samples / profile.samples)} of the time on processors was ${nameOf(sampled).replace(/^(?!in )/, 'in ')}` : null);
  return text ? <p class="reason">{format.sentence(text)}</p> : null;
}
const MUCH = 0.2, MUCH_DATA = 100 << 20;

function PostMortem({ report, name }: { report: Report; name: string }) {
  const { last, failed, failed_elsewhere } = report;
  const chain = failed_elsewhere?.chain ?? failed?.chain ?? [], crashes = crashesOf(report);
  return (
    <>
      {last && last.said_last.length > 0 && (
        <section class="panel" aria-labelledby="said-title">
          <h2 id="said-title">Said last</h2>
          <pre class="said" tabIndex={0} aria-label="What it said last">{last.said_last.join('\n')}</pre>
        </section>
      )}
      {last && last.events.length > 0 && <LastEvents last={last} of={name} stacks={!crashes.length} />}
      {(chain.length > 1 || failed_elsewhere) && <Blame chain={chain} node={failed_elsewhere?.node} />}
      <Crashes crashes={crashes} calls={report.crash_calls} />
    </>
  );
}

/** Of a job that has read or written much. */
const dataText = ({ io }: Pick<Report, 'io'>) => io && Object.values(io).some((bytes) => bytes >= MUCH_DATA) &&
  `Read ${format.size(io.read_bytes)}, wrote ${format.size(io.written_bytes)}; from disks ${format.size(io.disk_read_bytes)}, to disks ${format.size(io.disk_written_bytes)}.`;

type Process = Report['processes'][number] & { host: string };
const processColumns: Column<Process>[] = [
  { key: 'pid', title: 'Process', number: true, cell: (p) => p.pid, value: (p) => p.pid },
  { key: 'name', title: 'Command', fill: true, cell: (p) => <span class="mono" title={p.argv ? format.command(p.argv) : ''}>{p.argv ? format.command(p.argv) : p.name}</span>, value: (p) => p.name },
  { key: 'node', title: 'Node', wide: true, cell: (p) => p.host, value: (p) => p.host },
  { key: 'start', title: 'Started', about: 'after the job', number: true, wide: true, cell: (p) => format.seconds(p.start_seconds), value: (p) => p.start_seconds },
  { key: 'took', title: 'Time', number: true, wide: true, cell: (p) => p.end_seconds !== null && <Unit text={format.seconds(p.end_seconds - p.start_seconds)} />, value: (p) => (p.end_seconds === null ? null : p.end_seconds - p.start_seconds) },
  { key: 'cpu', title: 'CPU time', number: true, wide: true, cell: (p) => <Unit text={format.seconds(p.cpu_seconds)} />, value: (p) => p.cpu_seconds },
  { key: 'memory', title: 'Memory', about: 'the most', number: true, wide: true, cell: (p) => p.peak_rss_bytes > 0 && <Unit text={format.size(p.peak_rss_bytes)} />, value: (p) => p.peak_rss_bytes },
  { key: 'how', title: 'Ended', cell: (p) => <span class={p.signal || p.exit_code ? 'bad-text' : 'soft'}>{p.end_seconds === null ? 'left running' : how(p)}</span>, value: (p) => (p.end_seconds === null ? null : how(p)) },
];

function Processes({ report }: { report: Report }) {
  const of = (list: Report['processes'], host: string, offset: number): Process[] => list.map((p) => ({ ...p, host, start_seconds: p.start_seconds + offset, end_seconds: p.end_seconds === null ? null : p.end_seconds + offset }));
  const rows = [...of(report.processes, report.host, 0), ...report.parts.flatMap((part) => of(part.processes, part.name, part.started_at))];
  if (rows.length < 2) return null;
  return (
    <details class="panel">
      <summary>Processes ({format.count(rows.length)})</summary>
      <Table label="Processes" columns={processColumns.filter((c) => c.key !== 'node' || report.parts.length > 0)} rows={rows} rowKey={(p) => `${p.host} ${p.pid} ${p.start_seconds}`} sortParam="processes" sort="-cpu" visible={20} />
    </details>
  );
}

/** "job.sh:11": what happened there, in whatever words. */
const hasLine = (from: string) => /:\d+$/.test(from);

/** With what ranks do between their calls of MPI, where only these were traced. */
function functionsOf({ functions, mpi }: Report): FunctionRow[] {
  const outside = functions.every((one) => kindOf(one.name) !== 'compute') ? sum((mpi?.ranks ?? []).map((rank) => rank.time?.computation_ns ?? 0)) : 0;
  return outside > 0 ? [...functions, { name: OUTSIDE, file: '', line: 0, calls: 0, self_ns: outside, total_ns: outside }] : functions;
}

/** cause: as the list of jobs has it. */
export function After({ id, report, name, cause }: { id: string; report: Report; name: string; cause: string | null }) {
  const model = useMemo(() => modelOfReport(report), [report]);
  const log = useMemo(() => logOf(report), [report]);
  const all = report.all_nodes, nodes = [report, ...report.parts];
  const ranks = report.mpi?.ranks.length ?? 0, inRanks = report.mpi?.time;
  // of one that failed they stand among what happened last
  const stood = report.last?.events.some((e) => e.stream === 'mpi' && e.weight === 'failure');
  const told = new Set(report.last?.events.filter((e) => e.stream === 'warning').map((e) => e.text));
  const logged = log.lines.some((line) => !report.last?.events.some((e) => e.text.includes(line.text) || (hasLine(line.from) && e.text.includes(line.from))));
  const data = dataText(report), sampled = hasSamples(report.profile), hasFunctions = sampled || report.functions.length > 0 || nodes.some((one) => one.scripts.python_functions.length > 0);
  return (
    <>
      {report.mirror?.note && <Notice title={report.mirror.note} advice={`As ${report.mirror.via} has it.`} />}
      <Verdict report={report} cause={cause} />
      <div class="panel">
        <Figures>
          <Figure text={format.seconds(report.wall_seconds)} label="wall time" />
          <Figure text={format.seconds(all.cpu_seconds)} label="CPU time" />
          <Figure text={report.wall_seconds > 0 ? format.digits(all.cpu_seconds / report.wall_seconds, 2) : '–'} label="processors busy" />
          <Figure text={format.size(all.peak_rss_bytes)} label="largest process" />
          {all.process_count > 1 && <Figure text={format.size(sum([report, ...report.parts.map((part) => part.job)].map((one) => one.peak_tree_pss_bytes ?? one.peak_tree_rss_bytes)))} about="pages that processes share count once, where that is known" label={report.parts.length ? 'memory, sum of nodes’ peaks' : 'memory, all at once'} />}
          <Figure text={format.count(all.process_count)} label={all.process_count === 1 ? 'process' : 'processes'} />
          {report.parts.length > 0 && <Figure text={format.count(report.parts.length + 1)} label="nodes" />}
          {ranks > 0 && <Figure text={format.count(ranks)} label="ranks" />}
          {!!inRanks?.total_ns && <Figure text={format.share(inRanks.communication_ns / inRanks.total_ns)} label="of ranks’ time in MPI" />}
          {all.left_running > 0 && <Figure text={format.count(all.left_running)} label="left running" />}
          {all.lost_records > 0 && <Figure text={format.count(all.lost_records)} label="records lost" />}
        </Figures>
        {report.growth && report.last && <p>{format.sentence(growthText(report.growth, true))}</p>}
        {data && <p>{data}</p>}
      </div>
      <PostMortem report={report} name={name} />
      {alike(report.warnings.filter((w) => !told.has(w.text) && !(stood && w.kind === 'stalled'))).map((w) => <Notice key={w.text} tone="warn" title={format.sentence(w.text)} advice={timesText(w.times)} />)}
      {report.problems.map((p, i) => <Notice key={i} tone="warn" title={p} advice="A part of the job directory could not be read; the rest is shown." />)}
      <div class="columns">
        {report.functions.length > 0 ? <Functions of="of all processes" rows={functionsOf(report)} /> : sampled && <Hottest id={id} profile={report.profile!} />}
        {(logged || !log.lines.length) && <Lines of={log} />}
      </div>
      <Metrics of={model.metrics} />
      <Health of={name} model={model} version={0} over />
      <Scripts nodes={nodes} />
      <Processes report={report} />
      <NotHere model={log} functions={hasFunctions} />
    </>
  );
}
