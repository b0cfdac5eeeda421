// SPDX-License-Identifier: Apache-2.0
// All tasks, as they go on; some of them chosen, to be compared.
import { ask, taskIsActive, taskPath, tell, useTasks, type Session, type Task, type TaskRow } from '../api';
import { Answered, Choice, Danger, Empty, Notice, Progress, Unit } from '../design/parts';
import { Table, type Column } from '../design/table';
import { useDoing } from '../doing';
import * as format from '../format';
import { State, type Outcome } from '../pages/status';
import { go, href, useParam } from '../state';
import './tasks.css';

/** Of tasks, and of their runs. */
export const kinds: Record<TaskRow['state'], Outcome['kind']> = {
  draft: 'draft', queued: 'queued', building: 'running', running: 'running', gathering: 'running', done: 'good', failed: 'bad', cancelled: 'cancelled',
};
/** As a sign and a word. */
export function taskOutcome(task: Pick<TaskRow, 'state' | 'waits_for' | 'runs_done' | 'runs_wanted'>): Outcome {
  const which = task.state === 'running' && task.runs_wanted > 1 ? ` ${Math.min(task.runs_done + 1, task.runs_wanted)} of ${task.runs_wanted}` : '';
  return { kind: kinds[task.state], text: task.state + which + (task.waits_for ? `, waiting for: ${task.waits_for}` : '') };
}
export const taskTitle = (task: Pick<TaskRow, 'id' | 'name'>) => task.name || task.id;

/** Of which run a task is judged: the last that ended well, else the last. As `scry task compare` has it. */
export const runOf = (task: Task) => task.runs.filter((run) => run.state === 'done').at(-1) ?? task.runs.at(-1);

const progresses = (task: TaskRow) => taskIsActive(task) && task.state !== 'queued';

export function TaskProgress({ task }: { task: TaskRow }) {
  if (!progresses(task)) return null;
  return (
    <span class="progress-cell">
      <Progress share={task.progress} label={`progress of ${taskTitle(task)}`} />
      <span class="soft">{task.progress !== null ? format.share(task.progress) : ''} {task.left_seconds !== null ? `about ${format.seconds(task.left_seconds)} left` : ''}</span>
    </span>
  );
}

const took = (task: TaskRow) => (task.began_seconds === null ? null : (task.ended_seconds ?? Date.now() / 1000) - task.began_seconds);
const filters = [['', 'All'], ['active', 'Under way'], ['done', 'Done'], ['failed', 'Failed']] as const;
const passes = (task: TaskRow, filter: string) => !filter || (filter === 'active' ? taskIsActive(task) : task.state === filter);

/** Before the reason; State says it. */
const RUN_ENDED = /^run \d+ ended with [^:]*: /;
/** Why a task failed has the room, also on a phone. */
const besides: Record<string, Partial<Column<TaskRow>>> = { progress: { wide: false, fill: true }, time: { wide: true } };

export function Tasks({ session }: { session: Session }) {
  const answer = useTasks();
  const [text, setText] = useParam('text');
  const [filter, setFilter] = useParam('state');
  const [chosenText, setChosen] = useParam('chosen');
  const { said, busy, doIt } = useDoing();
  const may = session.rights.includes('submit');
  const chosen = new Set(chosenText.split(',').filter(Boolean));
  const choose = (id: string, on: boolean) => {
    const next = new Set(chosen);
    on ? next.add(id) : next.delete(id);
    setChosen([...next].join(','));
  };

  const columns: Column<TaskRow>[] = [
    { key: 'chosen', title: 'Choose', cell: (t) => <label class="check"><input type="checkbox" checked={chosen.has(t.id)} aria-label={`choose ${taskTitle(t)}, ${t.id}`} onChange={(e) => choose(t.id, e.currentTarget.checked)} /></label> },
    { key: 'state', title: 'State', cell: (t) => <State of={taskOutcome(t)} />, value: (t) => t.state },
    { key: 'name', title: 'Task', cell: (t) => <a href={href(['tasks', t.id])} title={t.id}>{taskTitle(t)}</a>, value: taskTitle },
    { key: 'progress', title: 'Progress', wide: true, cell: (t) => (t.error ? <span class="soft" title={t.error.text}>{t.error.text.replace(RUN_ENDED, '')}</span> : <TaskProgress task={t} />), value: (t) => t.progress },
    { key: 'processes', title: 'Processes', number: true, wide: true, cell: (t) => t.processes, value: (t) => t.processes },
    { key: 'runs', title: 'Runs', number: true, wide: true, about: 'that ended, of those that were asked for', cell: (t) => `${t.runs_done} of ${t.runs_wanted}`, value: (t) => t.runs_done },
    { key: 'time', title: 'Time', number: true, about: 'from its first phase to its end', cell: (t) => took(t) !== null && <Unit text={format.seconds(took(t)!)} />, value: took },
    { key: 'created', title: 'Made', number: true, wide: true, cell: (t) => format.moment(t.created_seconds), value: (t) => t.created_seconds },
    { key: 'series', title: 'Series', wide: true, cell: (t) => t.series && <a href={href(['scaling'], { tasks: t.id })} title={t.series}>how it scales</a>, value: (t) => t.series },
  ];
  if (may)
    columns.push({
      key: 'do', title: 'Do', wide: true, cell: (t) => (
        taskIsActive(t) ? <button type="button" class="quiet" disabled={busy} aria-label={`Cancel ${taskTitle(t)}, ${t.id}`} onClick={() => doIt(async () => (await tell('POST', taskPath(t.id, 'cancel')), `${taskTitle(t)} is being ended.`))}>Cancel</button>
          : t.state !== 'draft' && <button type="button" class="quiet" disabled={busy} aria-label={`Run again: ${taskTitle(t)}, ${t.id}`} onClick={() => doIt(async () => (await tell('POST', taskPath(t.id, 'rerun')), `${taskTitle(t)} is queued again.`))}>Run again</button>
      ),
    });

  const compare = () => doIt(async () => {
    const [a, b] = await Promise.all([...chosen].map(async (id) => runOf(await ask<Task>(taskPath(id)))?.job));
    if (!a || !b) throw new Error('One of these tasks has not run yet: there is nothing to compare.');
    return () => go(['compare'], { a, b });
  });
  const remove = () => doIt(async () => {
    for (const id of chosen) await tell('DELETE', taskPath(id));
    setChosen('');
    return chosen.size === 1 ? 'It is gone.' : 'They are gone.';
  });

  return (
    <>
      <div class="bar">
        <h1>Tasks</h1>
        <input class="grow" type="search" placeholder="Filter: name, program, number" aria-label="Filter tasks" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        <Choice label="State" value={filter as (typeof filters)[number][0]} of={filters} onChange={setFilter} />
        {may && <a class="button first end" href={href(['submit'])}>Submit a task</a>}
      </div>
      {chosen.size > 0 && (
        <div class="bar chosen-bar" role="region" aria-label="Chosen tasks">
          <strong>{chosen.size} chosen</strong>
          <button type="button" disabled={busy || chosen.size !== 2} title={chosen.size === 2 ? '' : 'choose two'} onClick={compare}>Compare</button>
          <button type="button" onClick={() => go(['scaling'], { tasks: [...chosen].join(',') })}>How they scale</button>
          {may && <Danger button="Remove …" title={`Remove ${chosen.size === 1 ? 'this task' : `these ${chosen.size} tasks`}?`} sure="Remove" disabled={busy} act={remove}>Their files and what their runs recorded are gone then, too.</Danger>}
          <button type="button" class="quiet" onClick={() => setChosen('')}>Choose none</button>
        </div>
      )}
      {said && <Notice live tone={said.tone} title={said.text} />}
      <Answered of={answer} wait="Asking for tasks …">
        {(tasks) => {
          const rows = tasks.filter((t) => passes(t, filter) && format.hasWords(text, `${t.id} ${t.name} ${t.program}`));
          if (!tasks.length)
            return (
              <Empty title="There are no tasks yet." command="scry submit -n 4 -- ./program">
                A task runs a program and measures it. {may ? <>Make one <a href={href(['submit'])}>here</a>, or on the command line:</> : 'Your link does not let you make one here; on the command line:'}
              </Empty>
            );
          return (
            <div class="panel">
              {rows.length ? <Table label="Tasks" columns={columns.filter((c) => (c.key === 'progress' ? tasks.some((t) => t.error || progresses(t)) : c.key !== 'series' || tasks.some((t) => t.series))).map((c) => (tasks.some((t) => t.error) ? { ...c, ...besides[c.key] } : c))} rows={rows} rowKey={(t) => t.id} sort="-created" onOpen={(t) => go(['tasks', t.id])} rowClass={(t) => (chosen.has(t.id) ? 'chosen' : '')} />
                : <Empty title="No task is like that.">Of {format.count(tasks.length)} tasks none has this state and these words. <a href={href(['tasks'])}>Show all</a></Empty>}
            </div>
          );
        }}
      </Answered>
    </>
  );
}
