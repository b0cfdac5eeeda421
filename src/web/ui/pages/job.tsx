// SPDX-License-Identifier: Apache-2.0
// A job's page: what it does now, or how it ended, and a tab for each picture of it.
import { useEffect } from 'preact/hooks';
import { jobPath, query, taskPath, useAnswer, type Answer, type Job as Row, type Ps, type Report, type Session, type Task, type Top } from '../api';
import { Answered, Empty, Tabs } from '../design/parts';
import * as format from '../format';
import { href } from '../state';
import { views } from '../views';
import { After } from './after';
import { title } from './jobs';
import { Live } from './live';
import { outcome, State, Unsigned } from './status';
import { emptyViews } from './verdict';

/** The task that the job is a run of. */
function OfTask({ id, task }: { id: string; task: Answer<Task> }) {
  if (task.error?.status === 404) return <span>of a task that was removed</span>;
  return (
    <span>
      of task <a href={href(['tasks', id])} title={id}>{task.value?.name || id}</a>
    </span>
  );
}

function Title({ id, row, top, task, stale, cause }: { id: string; row: Row | undefined | null; top: Top | undefined; task: Answer<Task>; stale: boolean; cause: string | null }) {
  const state = stale ? null : top ? outcome({ status: top.status, exit_code: row?.exit_code, signal: row?.signal, cause: row?.cause }) : row && outcome(row);
  return (
    <div class="job-title">
      <div class="line">
        <h1 title={row?.name || id}>{row ? title(row) : id}</h1>
        {state && <State of={state} />}
        {row && <Unsigned job={row} />}
        {state && state.kind !== 'running' && <a class="no-print" href={href(['compare'], { a: id })}>Compare with another run</a>}
      </div>
      <div class="line soft">
        {row && title(row) !== id && <span class="mono">{id}</span>}
        {row?.host && <span>on {row.host}</span>}
        {row?.started_seconds !== undefined && <span>started {format.moment(row.started_seconds)}</span>}
        {row?.task && <OfTask id={row.task} task={task} />}
        {row?.batch && (
          <span>
            {row.batch.system} {row.batch.array ?? row.batch.id} {row.batch.partition}
          </span>
        )}
      </div>
      <div class="argv" title={row?.argv && format.command(row.argv)}>{row?.argv && format.command(row.argv)}</div>
      {cause && <p class="cause">{format.sentence(cause)}</p>}
    </div>
  );
}

const MOVED: Record<string, string> = { matrix: 'communication' }; // parts that stood under a name of their own

export function Job({ id, tab: asked, session }: { id: string; tab: string; session: Session }) {
  const tab = MOVED[asked] ?? asked;
  const answer = useAnswer<Top>(jobPath(id), (top) => (top.status === 'running' ? 2 : 0));
  const listed = useAnswer<Ps>(`jobs${query({ text: id, limit: 20 })}`);
  // its row of the list; undefined: not known yet; null: there is none
  const row = listed.waiting ? undefined : listed.value?.jobs.find((job) => job.id === id) ?? null;
  const task = useAnswer<Task>(row?.task ? taskPath(row.task) : null);
  const lost = answer.error?.status === 404;
  // of a job that ran when it was listed, the list says how it has ended
  const stale = !!answer.value && answer.value.status !== 'running' && !!row && outcome(row).kind === 'running';
  useEffect(() => {
    const timer = stale ? window.setTimeout(listed.again, 500) : 0;
    return () => clearTimeout(timer);
  }, [stale, listed.value]);
  const runs = answer.value?.status === 'running', cause = row?.cause ?? null;
  // it says which parts there are
  const over = answer.value !== undefined && answer.value.status !== 'running', report = useAnswer<Report>(over ? jobPath(id, 'report') : null);
  const own = views.filter((v) => v.of === 'job'), without = emptyViews(report.value, runs ? answer.value : undefined);
  const view = own.find((v) => v.name === tab);
  const name = row?.name || id;
  const tabs = [{ key: '', title: runs || !answer.value ? 'How it runs' : 'How it ended', href: href(['jobs', id]) }, ...own.map((v) => ({ key: v.name, title: v.title, href: href(['jobs', id, v.name]), without: without.includes(v.name) }))];
  if (lost && listed.value && !row)
    return <Empty page title="There is no such job.">It may have been removed. <a href={href(['jobs'])}>All jobs</a></Empty>;
  return (
    <div class={row === undefined || task.waiting ? 'untitled' : 'titled'}>
      <Title id={id} row={row} top={answer.value} task={task} stale={stale} cause={tab ? cause : null} />
      <Tabs label="Parts of the job" chosen={tab} tabs={tabs} />
      {view && !lost ? <view.draw key={view.name} id={id} session={session} /> : <Answered of={lost && listed.waiting ? { ...answer, error: undefined, waiting: true } : answer}>
        {(top) => {
          if (tab) return <Empty title="There is no such part of a job."><a href={href(['jobs', id])}>The job</a></Empty>;
          return runs ? <Live id={id} top={top} session={session} name={name} /> : <Answered of={report} wait="Reading what was recorded …">{(value) => <After id={id} report={value} name={name} cause={cause} />}</Answered>;
        }}
      </Answered>}
    </div>
  );
}
