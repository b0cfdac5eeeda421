// SPDX-License-Identifier: Apache-2.0
// A task: how far it is, what its builds and runs printed, and its runs, which are jobs.
import { useEffect, useState } from 'preact/hooks';
import { taskIsActive, taskPath, tell, useAnswer, useTaskChanges, type Session, type Task as TaskAnswer } from '../api';
import { Answered, Command, Danger, Empty, Notice, Progress, Unit } from '../design/parts';
import { Table, type Column } from '../design/table';
import { useDoing } from '../doing';
import * as format from '../format';
import { State, type Outcome } from '../pages/status';
import { go, href, useParam } from '../state';
import { views } from '../views';
import { formOf } from './form';
import { kinds, runOf, taskOutcome, taskTitle } from './list';
import { some, unseen } from './unseen';
import { outputAddress } from './upload';
import './tasks.css';

type Run = TaskAnswer['runs'][number];
type Phase = TaskAnswer['phases'][number];

/** What to do about a task that failed, by the kind of its error. */
function Advice({ task, may }: { task: TaskAnswer; may: boolean }) {
  const change = may ? <a href={href(['submit'], { from: task.id })}>Run it with changes</a> : 'Run it with changes';
  const job = runOf(task)?.job;
  const of: Record<string, preact.ComponentChildren> = {
    time: <>{change}: with a longer limit of time, or less work.</>, memory: <>{change}: with a higher limit of memory, or fewer processes.</>,
    space: <>{change}: with a higher limit of space, or fewer functions: <code>fn:*</code> records the most.</>, build: <>What the build printed is below. {change}.</>,
    start: <>What it printed is below. {change}: another program, or another way to launch it.</>,
  };
  return <>{of[task.error!.kind] ?? <>{job ? <><a href={href(['jobs', job])}>The job</a> says what happened last. </> : null}{change}.</>}</>;
}

const spent = (phase: { began_seconds: number | null; ended_seconds: number | null }) => (phase.began_seconds === null ? null : Math.max(0, (phase.ended_seconds ?? Date.now() / 1000) - phase.began_seconds));

function Phases({ phases }: { phases: readonly Phase[] }) {
  const names = { build: 'Build', run: 'Run', gather: 'Bring it here' };
  const columns: Column<Phase & { i: number }>[] = [
    { key: 'phase', title: 'Phase', cell: (p) => `${names[p.phase]} ${p.run || ''}` },
    { key: 'share', title: 'Progress', cell: (p) => (p.ended_seconds !== null ? <span class="soft">ended</span> : (
      <span class="progress-cell">
        <Progress share={p.progress} label={`progress of ${names[p.phase]} ${p.run}`} />
        <span class="soft">{p.progress !== null ? format.share(p.progress) : ''} {p.left_seconds !== null ? `about ${format.seconds(p.left_seconds)} left` : ''}</span>
      </span>
    )) },
    { key: 'time', title: 'Time', number: true, cell: (p) => spent(p) !== null && <Unit text={format.seconds(spent(p)!)} /> },
    { key: 'began', title: 'Began', number: true, wide: true, cell: (p) => p.began_seconds !== null && format.moment(p.began_seconds) },
  ];
  return (
    <section class="panel" aria-label="Phases">
      <h2>Phases</h2>
      {phases.length ? <Table label="Phases" columns={columns} rows={phases.map((phase, i) => ({ ...phase, i }))} rowKey={(p) => p.i} visible={12} /> : <p class="soft">It waits for its turn: tasks of a user run one after the other.</p>}
      {phases.map((p, i) => p.left_behind && <p class="soft" key={i}>{names[p.phase]} {p.run} left {some(p.left_behind.processes, 'process', 'processes')} behind, which {p.left_behind.processes === 1 ? 'was' : 'were'} ended: {p.left_behind.names.join(', ')}</p>)}
    </section>
  );
}

/** Of each such run a line, with what to do. */
function Unseen({ runs }: { runs: readonly Run[] }) {
  return <>{runs.map((run) => unseen(run) && (
    <p key={run.run}>Run {run.run}: {unseen(run)}. What is shown is without them. <a href={href(['jobs', run.job!])}>Its job</a> says why; run it again{run.untraced_processes ? ', best when the machine is less busy' : ''}.</p>
  ))}</>;
}

function runOutcome(run: Run): Outcome {
  return { kind: kinds[run.state], text: run.state === 'failed' && run.exit_code ? `exit status ${run.exit_code}` : run.state };
}

function Runs({ task }: { task: TaskAnswer }) {
  const pictures = views.filter((view) => view.of === 'job');
  const columns: Column<Run>[] = [
    { key: 'run', title: 'Run', number: true, cell: (r) => r.run, value: (r) => r.run },
    { key: 'state', title: 'State', cell: (r) => <State of={runOutcome(r)} />, value: (r) => r.state },
    { key: 'job', title: 'Job', cell: (r) => (r.job ? <a href={href(['jobs', r.job])} title={r.job}>{r.state === 'running' ? 'watch it' : 'how it went'}</a> : <span class="soft">not begun</span>) },
    { key: 'seconds', title: 'Seconds', number: true, about: 'from the start of the command to its end', cell: (r) => r.seconds !== null && <Unit text={format.seconds(r.seconds)} />, value: (r) => r.seconds },
    { key: 'pictures', title: 'Pictures', wide: true, cell: (r) => r.job && <span class="links">{pictures.map((view) => <a key={view.name} href={href(['jobs', r.job!, view.name])}>{view.title}</a>)}</span> },
  ];
  return (
    <section class="panel" aria-label="Runs">
      <h2>Runs</h2>
      {task.runs.length ? <Table label="Runs" columns={columns} rows={task.runs} rowKey={(r) => r.run} sortParam="runs" visible={20} /> : <p class="soft">None has begun.</p>}
      <Unseen runs={task.runs} />
    </section>
  );
}

interface Files { files: { path: string; size_bytes: number; modified_seconds: number }[] }
const TAIL = 64 << 10;

/** The name of a file of output, for people: "runs/build1.err" → "build 1, errors". */
function outputTitle(path: string): string {
  const found = /^runs\/([a-z]*)(\d+)\.(\w+)(\.err)?$/.exec(path);
  if (!found) return path;
  const [, what, run, ending, more] = found;
  const kind = ending === 'err' || more ? ', errors' : ending === 'sh' ? ', script' : ending === 'batch' ? ', of the batch system' : '';
  return `${what || 'run'} ${run}${kind}`;
}

/** Text of a program without what moves a terminal's cursor. */
const plain = (text: string) => text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (c) => (c === '\r' ? '' : '·'));

/** The end of one file, again and again while it grows. */
function useTail(address: string | null, grows: boolean): string | undefined {
  const [text, setText] = useState<string>();
  useEffect(() => {
    setText(undefined);
    if (!address) return;
    const stop = new AbortController();
    let timer = 0;
    const look = async () => {
      try {
        const answer = await fetch(address, { headers: { Range: `bytes=-${TAIL}` }, credentials: 'same-origin', signal: stop.signal });
        if (answer.ok) setText((answer.status === 206 && Number(/\/(\d+)$/.exec(answer.headers.get('Content-Range') ?? '')?.[1]) > TAIL ? '…' : '') + plain(await answer.text()));
      } catch {
        if (stop.signal.aborted) return; // else the server is away: it is asked again
      }
      if (grows && !stop.signal.aborted) timer = window.setTimeout(() => void look(), 2000);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [address, grows]);
  return text;
}

function Output({ task, files }: { task: TaskAnswer; files: Files['files'] }) {
  const outputs = files.filter((file) => file.path.startsWith('runs/'));
  const building = task.state === 'building' || task.error?.kind === 'build';
  const wanted = outputs.filter((file) => file.path.startsWith('runs/build') === building);
  const usual = [...wanted].sort((a, b) => Number(b.size_bytes > 0) - Number(a.size_bytes > 0) || b.modified_seconds - a.modified_seconds)[0]?.path ?? outputs[0]?.path ?? '';
  const [chosen, setChosen] = useParam('output', usual);
  const text = useTail(chosen ? outputAddress(task.id, chosen) : null, taskIsActive(task));
  return (
    <section class="panel" aria-label="Output">
      <header>
        <h2>What it printed</h2>
        {outputs.length > 0 && (
          <select aria-label="Which output" value={chosen} onChange={(e) => setChosen(e.currentTarget.value)}>
            {outputs.map((file) => <option key={file.path} value={file.path}>{outputTitle(file.path)}{file.size_bytes ? '' : ': nothing'}</option>)}
          </select>
        )}
      </header>
      {!outputs.length ? <p class="soft">Nothing has run yet.</p> : text === undefined ? <p class="waiting">Reading …</p> : text ? <pre class="output" tabIndex={0} aria-label={outputTitle(chosen)}>{text}</pre> : <p class="soft">Nothing.</p>}
    </section>
  );
}

function FilesPanel({ task, files }: { task: TaskAnswer; files: Files['files'] }) {
  const columns: Column<Files['files'][number]>[] = [
    { key: 'file', title: 'File', cell: (f) => <a class="mono" href={outputAddress(task.id, f.path)} download={format.base(f.path)}>{f.path}</a>, value: (f) => f.path },
    { key: 'size', title: 'Size', number: true, cell: (f) => <Unit text={format.size(f.size_bytes)} />, value: (f) => f.size_bytes },
    { key: 'changed', title: 'Changed', number: true, wide: true, cell: (f) => format.moment(f.modified_seconds), value: (f) => f.modified_seconds },
  ];
  return (
    <section class="panel" aria-label="Files">
      <header>
        <h2>Files</h2>
        <span class="soft">what runs recorded is with their jobs</span>
      </header>
      {files.length ? <Table label="Files of the task" columns={columns} rows={files} rowKey={(f) => f.path} sortParam="files" sort="file" visible={12} /> : <p class="soft">It has none.</p>}
    </section>
  );
}

const LONG = 120; // characters: about two lines

/** Each line of a value; one that is long, as of a PATH, is unfolded on demand. */
function Lines({ text }: { text: string }) {
  return <>{text.split('\n').map((line, i) => (line.length > LONG ? <details key={i}><summary>{line.slice(0, LONG / 2)} …</summary>{line}</details> : <div key={i}>{line}</div>))}</>;
}

/** What was asked for, in the words of the form. */
function Asked({ task }: { task: TaskAnswer }) {
  const form = formOf(task), files = (task.task as { files: string[] }).files;
  const rows: [string, string, boolean?][] = [
    ['Command', `${format.command([form.program])} ${form.arguments}`, true], ['Directory', form.directory, true], ['Build', form.build, true], ['Files', files.join(' '), true],
    ['Launched by', [form.by, form.hosts && `on ${form.hosts}`, form.partition && `partition ${form.partition}`, form.options].filter(Boolean).join(', ')], ['Processes', form.processes], ['Repetitions', form.repeat],
    ['Functions', `${form.functions || 'none'}${form.values ? ', with values' : ''}`, true], ['MPI', form.mpi], ['Lines of logs', form.logs, true], ['Environment', form.environment, true],
    ['Limits', [`${form.seconds === '0' ? 'no limit of time' : form.seconds}`, form.memory && `${form.memory} of memory`, `${form.disk} of disk`].filter(Boolean).join(', ')],
  ];
  return (
    <section class="panel" aria-label="What was asked for">
      <h2>What was asked for</h2>
      <dl class="asked">
        {rows.filter(([, value]) => value).map(([name, value, mono]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class={mono ? 'mono' : ''}><Lines text={value} /></dd>
          </div>
        ))}
      </dl>
      {task.command.length > 4 * LONG ? <details><summary>The same on the command line</summary><Command text={task.command} /></details> : <p class="soft">The same on the command line: <Command text={task.command} /></p>}
    </section>
  );
}

function Head({ task, may }: { task: TaskAnswer; may: boolean }) {
  const { said, busy, doIt } = useDoing();
  const active = taskIsActive(task), job = runOf(task)?.job;
  const [before, setBefore] = useState<string>(); // what is said to come is not said any more when it came
  const act = (path: string, text: string) => (setBefore(task.state), doIt(async () => (await tell('POST', taskPath(task.id, path)), text)));
  return (
    <>
      <div class="job-title">
        <div class="line">
          <h1 title={taskTitle(task)}>{taskTitle(task)}</h1>
          <State of={taskOutcome(task)} />
        </div>
        <div class="line soft">
          {task.name && <span class="mono">{task.id}</span>}
          <span>made {format.moment(task.created_seconds)}</span>
          {task.ended_seconds !== null && <span>ended {format.moment(task.ended_seconds)}</span>}
        </div>
      </div>
      <div class="bar no-print">
        {may && task.state === 'draft' && <button type="button" class="first" disabled={busy} onClick={() => act('queue', 'It is queued.')}>Queue it</button>}
        {may && active && <button type="button" disabled={busy} onClick={() => act('cancel', 'It is being ended.')}>Cancel</button>}
        {may && !active && task.state !== 'draft' && <button type="button" disabled={busy} onClick={() => act('rerun', 'It is queued again.')}>Run again</button>}
        {may && <a class="button" href={href(['submit'], { from: task.id })}>Run with changes</a>}
        {job && <a class="button" href={href(['compare'], { a: job })}>Compare with …</a>}
        {task.series && <a class="button" href={href(['scaling'], { tasks: task.id })}>How it scales</a>}
        {may && !active && (
          <Danger button="Remove …" title="Remove this task?" sure="Remove" disabled={busy} act={() => doIt(async () => (await tell('DELETE', taskPath(task.id)), () => go(['tasks'])))}>
            Its files and what its runs recorded are gone then, too.
          </Danger>
        )}
        {!may && <span class="soft">Your link lets you look. To change tasks, take one with the right submit: <code>scry serve --link</code></span>}
      </div>
      {said && (said.tone === 'bad' || task.state === before) && <Notice live tone={said.tone} title={said.text} />}
      {task.error && <Notice tone="bad" title={format.sentence(task.error.text)} advice={<Advice task={task} may={may} />} />}
      {task.state === 'draft' && <Notice title="It is a draft: nothing of it runs before it is queued." advice="Some of its files may be missing, if an upload was broken off. Then remove it, and submit it again." />}
    </>
  );
}

export function Task({ id, session }: { id: string; session: Session }) {
  const answer = useAnswer<TaskAnswer>(taskPath(id), (task) => (taskIsActive(task) ? 2 : 0));
  const [gone, setGone] = useState(false);
  useTaskChanges((which, task) => which === id && (task ? answer.again() : setGone(true)), answer.again);
  const task = answer.value;
  // the list of files, anew when a phase begins or ends
  const files = useAnswer<Files>(task ? `${taskPath(id, 'output')}` : null);
  const stage = task && `${task.state} ${task.phases.length} ${task.runs_done}`;
  useEffect(() => {
    if (stage) files.again();
  }, [stage]);
  if (gone) return <Empty page title="This task was removed."><a href={href(['tasks'])}>All tasks</a></Empty>;
  return (
    <Answered of={answer} wait="Asking for the task …">
      {(task) => (
        <>
          <Head task={task} may={session.rights.includes('submit')} />
          <Runs task={task} />
          <div class="columns">
            <div class="stack">
              <Answered of={files} wait="Asking for files …">{({ files: list }) => <><Output key={task.id} task={task} files={list} /><FilesPanel task={task} files={list} /></>}</Answered>
            </div>
            <div class="stack">
              <Phases phases={task.phases} />
              <Asked task={task} />
            </div>
          </div>
        </>
      )}
    </Answered>
  );
}
