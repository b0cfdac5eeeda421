// SPDX-License-Identifier: Apache-2.0
// All jobs: the newest first, how they are, how far they are.
import { useState } from 'preact/hooks';
import { query, useAnswer, type Job, type Ps } from '../api';
import { Answered, Choice, Empty, Notice, Progress, Unit } from '../design/parts';
import { Table, type Column } from '../design/table';
import * as format from '../format';
import { go, href, useParam } from '../state';
import { notesOf } from '../views/parts';
import { outcome, State, Unsigned } from './status';
import { isLive, isQuiet } from './verdict';

/** What a job is called: by its name, else by its program. */
export const title = (job: Job) => job.name || (job.argv?.length ? format.base(job.argv[0]!) : job.id);
/** As `scry top` says the time that is left. */
const left = (job: Job) => (job.progress?.left_seconds ? `${format.seconds(job.progress.left_seconds)} left` : '');
const secondsOf = (job: Job) => job.wall_seconds ?? null;

const STILL_SECONDS = 60;
/** Of ranks that poll, processors are busy, and nothing else says that they stand. */
function still(job: Job): string | null {
  const ranks = job.state === 'running' ? job.ranks ?? [] : [], since = Math.min(...ranks.filter(isLive).map((rank) => rank.since_seconds));
  return isQuiet(ranks, 0, 0, 0) && since >= STILL_SECONDS ? `no rank has moved for ${format.seconds(since)}` : null;
}
/** Why it failed, cannot be read, or stands still. */
const why = (job: Job) => job.cause ?? job.reason ?? still(job);
/** The state says already how it ended. */
const brief = (job: Job) => (job.brief === undefined ? why(job) : job.brief ?? still(job));

/** With a box before each, to choose some. */
const columns = (chosen: string[], choose: (id: string, on: boolean) => void): Column<Job>[] => [
  { key: 'chosen', title: 'Choose', wide: true, cell: (j) => <label class="check"><input type="checkbox" checked={chosen.includes(j.id)} aria-label={`choose ${title(j)}, ${j.id}`} onChange={(e) => choose(j.id, e.currentTarget.checked)} /></label> },
  { key: 'state', title: 'State', cell: (j) => <><State of={outcome(j)} /> <Unsigned job={j} /></>, value: (j) => outcome(j).kind + outcome(j).text },
  { key: 'name', title: 'Job', cell: (j) => <a href={href(['jobs', j.id])} title={`${title(j)}, ${j.id}`}>{title(j)}</a>, value: title },
  {
    key: 'progress', title: 'Progress', wide: true, value: (j) => j.progress?.share ?? null,
    cell: (j) => j.progress && (
      <span class="progress-cell">
        <Progress share={j.progress.share} label={`progress of ${title(j)}`} />
        <span class="soft">{j.progress.share != null ? format.share(j.progress.share) : ''} {left(j)}</span>
      </span>
    ),
  },
  { key: 'time', title: 'Time', number: true, cell: (j) => secondsOf(j) !== null && <Unit text={format.seconds(secondsOf(j)!)} />, value: secondsOf },
  { key: 'cpu', title: 'CPU time', number: true, wide: true, cell: (j) => j.cpu_seconds !== undefined && <Unit text={format.seconds(j.cpu_seconds)} />, value: (j) => j.cpu_seconds ?? null },
  { key: 'memory', title: 'Memory', about: 'the most of all processes together; pages that they share count once', number: true, wide: true, cell: (j) => j.peak_tree_rss_bytes !== undefined && <Unit text={format.size(j.peak_tree_pss_bytes ?? j.peak_tree_rss_bytes)} />, value: (j) => j.peak_tree_pss_bytes ?? j.peak_tree_rss_bytes ?? null },
  { key: 'started', title: 'Started', number: true, wide: true, cell: (j) => j.started_seconds !== undefined && format.moment(j.started_seconds), value: (j) => j.started_seconds ?? null },
  { key: 'host', title: 'Node', wide: true, cell: (j) => j.host, value: (j) => j.host ?? null },
  { key: 'user', title: 'User', wide: true, cell: (j) => j.user, value: (j) => j.user ?? null },
  { key: 'batch', title: 'Batch', wide: true, cell: (j) => j.batch && `${j.batch.system} ${j.batch.array ?? j.batch.id ?? ''}`, value: (j) => j.batch?.id ?? null },
  { key: 'command', title: 'Command', wide: true, fill: true, cell: (j) => <span class="mono" title={format.command(j.argv ?? [])}>{format.command(j.argv ?? [])}</span>, value: (j) => format.command(j.argv ?? []) || null },
  { key: 'cause', title: 'Reason', about: 'the most probable one why it failed', fill: true, cell: (j) => <span title={why(j) ?? undefined}>{brief(j)}</span>, value: brief },
];

/** Columns that say nothing in most lists: of how many different values on, nothing among them. */
const sparse: Record<string, number> = { progress: 1, host: 2, batch: 1, user: 2, cause: 1 };
/** Beside reasons others have less room, and on a phone none. */
const besides: Record<string, Partial<Column<Job>>> = { time: { wide: true }, command: { fill: false } };
const says = (column: Column<Job>, jobs: Job[]) => new Set(jobs.map(column.value!).filter((value) => value !== null)).size >= (sparse[column.key] ?? 0);

/** Of jobs, in the order of their counts. */
const states = [['', 'All'], ['running', 'Running'], ['bad', 'Failed'], ['hidden', 'With errors'], ['good', 'Finished'], ['warn', 'Unknown']] as const;
const PAGE = 500;

/** What the filter looks in. */
const textOf = (job: Job) => [job.id, job.name, job.host, job.user, job.batch?.id, why(job), ...(job.argv ?? [])].join(' ');

export function Jobs() {
  const [text, setText] = useParam('text');
  const [state, setState] = useParam('state');
  const [limit, setLimit] = useState(PAGE);
  const answer = useAnswer<Ps>(`jobs${query({ limit })}`, 3);
  const [chosenText, setChosen] = useParam('chosen');
  const chosen = chosenText.split(',').filter(Boolean);
  const choose = (id: string, on: boolean) => setChosen((on ? [...chosen.slice(-1), id] : chosen.filter((one) => one !== id)).join(','));
  return (
    <>
      <div class="bar">
        <h1>Jobs</h1>
        <input class="grow" type="search" placeholder="Filter: name, command, node, user, number" aria-label="Filter jobs" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        <Choice label="State" value={state as (typeof states)[number][0]} of={states} onChange={setState} />
        {chosen.length > 0 && <button type="button" class="first" disabled={chosen.length !== 2} onClick={() => go(['compare'], { a: chosen[0], b: chosen[1] })}>{chosen.length === 2 ? 'Compare these two' : 'Choose another to compare'}</button>}
        {answer.value && <span class="end">{counts(answer.value.jobs)}</span>}
      </div>
      <Answered of={answer} wait="Asking for jobs …">
        {({ jobs, ...said }) => {
          const notes = notesOf((said as { notes?: unknown }).notes).map((text) => <Notice key={text} tone="warn" title={text} />);
          const rows = jobs.filter((j) => (!state || outcome(j).kind === state) && format.hasWords(text, textOf(j)));
          if (!jobs.length)
            return (
              <>
                {notes}
                <Empty title="There are no jobs yet." command="scry run -- ./job.sh">
                  A job that is started by <code>scry run</code> shows up here by itself, and stays when it is over.
                </Empty>
              </>
            );
          return (
            <div class={`panel jobs ${jobs.some(why) ? 'reasons' : ''}`}>
              {notes}
              {rows.length ? (
                <Table label="Jobs" columns={columns(chosen, choose).filter((c) => !(c.key in sparse) || says(c, jobs)).map((c) => (jobs.some(why) ? { ...c, ...besides[c.key] } : c))} rows={rows} rowKey={(j) => j.id} sort="-started" onOpen={(j) => go(['jobs', j.id])} />
              ) : (
                <Empty title="No job is like that.">
                  Of {format.count(jobs.length)} jobs none has this state and these words. <a href={href(['jobs'])}>Show all</a>
                </Empty>
              )}
              {jobs.length >= limit && (
                <p>
                  <button type="button" onClick={() => setLimit(limit * 4)}>Older jobs, too</button>
                </p>
              )}
            </div>
          );
        }}
      </Answered>
    </>
  );
}

function counts(jobs: Job[]): string {
  const kinds = jobs.map((job) => outcome(job).kind), of = (kind: string) => kinds.filter((one) => one === kind).length;
  return states.slice(1).map(([kind, what]) => [of(kind), what.toLowerCase()]).filter(([n]) => n).map(([n, what]) => `${n} ${what}`).join(', ');
}
