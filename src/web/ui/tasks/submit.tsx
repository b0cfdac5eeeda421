// SPDX-License-Identifier: Apache-2.0
// The form of a task. What is typed stays when the page is left; the server checks it as it is typed, by the rules that it has.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, ApiError, isForNow, taskPath, tell, useAnswer, type Session, type Task } from '../api';
import { Choice, Command, Empty, Field, Notice, Progress, Unit } from '../design/parts';
import { faultText, useDoing } from '../doing';
import * as format from '../format';
import { go, href, usePlace } from '../state';
import { blamed, counts, emptyForm, formOf, openQuote, specOf, type Form } from './form';
import { chosen, dropped, upload, type Given } from './upload';
import './tasks.css';

// ---- what is kept of it ----

interface Draft { form: Form; files: Given[]; from: string }
const KEPT = 'scry.task';

/** The form as it was left; after a reload the files of this machine are only names. */
function draftRead(): Draft {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? '') as Partial<Draft>;
    const form = { ...emptyForm };
    for (const name of Object.keys(emptyForm) as (keyof Form)[]) if (typeof kept.form?.[name] === typeof emptyForm[name]) Object.assign(form, { [name]: kept.form![name] });
    return { form, files: (kept.files ?? []).map(({ name, size, from, folder }) => ({ name, size, from, folder })), from: kept.from ?? '' };
  } catch {
    return { form: emptyForm, files: [], from: '' };
  }
}
let draft: Draft | undefined;
const draftNow = () => (draft ??= draftRead());
function draftKeep(next: Draft) {
  draft = next;
  try {
    localStorage.setItem(KEPT, JSON.stringify(next, (name, value: unknown) => (name === 'blob' ? undefined : value)));
  } catch {
    // no room, or not allowed: it stays while the page is open
  }
}

function draftForget() {
  draft = undefined;
  localStorage.removeItem(KEPT);
}
/** Why a task was refused when nobody was on its page any more. */
let missed: { field: string; text: string } | undefined;

const unpackOf = (files: readonly Given[]) => files.filter((file) => file.folder).map((file) => file.name);

interface Said { wrong?: { field: string; text: string }; command?: string }

/** What the server says of it: what is wrong, and what makes the same on the command line; undefined: not known yet. */
function useCheck(form: Form, files: readonly Given[]): Said | undefined {
  const [said, setSaid] = useState<Said>();
  const names = files.map((file) => file.name), list = counts(form);
  const odd = list.find((count) => typeof count !== 'number');
  const processes = odd ?? list.reduce((most, count) => Math.max(most as number, count as number), 0);
  const open = openQuote(form);
  const missing = !form.program.trim(); // what else is wrong is said before it is typed
  const body = JSON.stringify(specOf({ ...form, program: missing ? 'program' : form.program }, names, unpackOf(files), processes, null));
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const check = (wait_ms: number) => {
      timer = window.setTimeout(() => {
        ask<{ command: string }>('tasks/check', { method: 'POST', body, headers: { 'Content-Type': 'application/json' }, signal: stop.signal }).then(
          ({ command }) => setSaid(missing ? { wrong: { field: 'program', text: 'is missing: a task needs it' } } : { command }),
          (error: unknown) => {
            if (stop.signal.aborted || !(error instanceof ApiError)) return;
            if (error.kind === 'bad_task') setSaid({ wrong: blamed(error.message) });
            else if (isForNow(error)) check(2000);
          },
        );
      }, wait_ms);
    };
    check(250);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [body, missing]);
  return open ? { wrong: { field: open, text: 'a quote is open, or a \\ ends it' } } : said && { ...said, command: said.command?.replace(/-n \d+/, `-n ${list.join()}`) };
}

// ---- files ----

function Files({ files, set, program, error }: { files: Given[]; set: (files: Given[], program?: string) => void; program: string; error?: string }) {
  const [over, setOver] = useState(false);
  const { said, doIt } = useDoing();
  const folder = useRef<HTMLInputElement>(null);
  useEffect(() => folder.current?.setAttribute('webkitdirectory', ''), []);
  const add = (more: Given[]) => {
    // a folder takes a while to read: what was typed and chosen meanwhile stays
    const now = draftNow(), names = new Set(more.map((file) => file.name));
    const next = [...now.files.filter((file) => !names.has(file.name)), ...more];
    set(next, now.form.program ? undefined : more.length === 1 && !more[0]!.folder ? more[0]!.name : undefined);
  };
  const take = (given: () => Given[] | Promise<Given[]>) => doIt(async () => {
    add(await given());
    return () => {};
  });
  const takeFrom = (input: HTMLInputElement) => {
    const files = [...input.files!];
    input.value = ''; // the same one may be chosen again
    take(() => chosen(files));
  };
  return (
    <div
      class={`drop ${over ? 'over' : ''}`} role="group" aria-label="Files of the task"
      onDragOver={(e) => (e.preventDefault(), setOver(true))} onDragLeave={() => setOver(false)}
      onDrop={(e) => (e.preventDefault(), setOver(false), e.dataTransfer && take(() => dropped(e.dataTransfer!)))}
    >
      {(error ?? said) && <p class="field-error" role="alert">{error ?? said!.text}</p>}
      <div class="bar">
        <span>Drop files or folders here: the program, its sources, its input. Or</span>
        <label class="button">choose files<input class="sr-only" type="file" multiple onChange={(e) => takeFrom(e.currentTarget)} /></label>
        <label class="button">choose a folder<input class="sr-only" type="file" ref={folder} onChange={(e) => takeFrom(e.currentTarget)} /></label>
      </div>
      {files.length > 0 && (
        <ul class="given">
          {files.map((file) => (
            <li key={file.name}>
              <span class="mono">{file.name}</span>
              <span class="soft">
                {file.folder ? `a folder of ${file.folder} files, which the build unpacks; ` : ''}
                {file.from ? `as task ${file.from} has it` : !file.blob ? 'choose it again: this page was loaded anew' : file.size !== null && <Unit text={format.size(file.size)} />}
              </span>
              {!file.folder && (program === file.name ? <span class="tag">is run</span> : <button type="button" class="quiet" onClick={() => set(files, file.name)}>run this one</button>)}
              <button type="button" class="quiet" aria-label={`Leave out ${file.name}`} onClick={() => set(files.filter((one) => one !== file), program === file.name ? '' : undefined)}>✕</button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

// ---- sending ----

interface Sending { what: string; share: number | null }

/** Makes the tasks, with their files, and queues them: all, or none of them. Returns their ids. */
async function send(form: Form, files: Given[], tellHow: (how: Sending) => void): Promise<string[]> {
  const list = counts(form), made: string[] = [];
  const series = list.length > 1 ? `s${Date.now().toString(36)}-${crypto.getRandomValues(new Uint32Array(1))[0]!.toString(36)}` : null;
  if (list.length > 64) throw new ApiError(0, 'bad_task', 'processes: expected at most 64 numbers');
  try {
    for (const processes of list) {
      tellHow({ what: 'Making the task …', share: null });
      const { id } = await tell<Task>('POST', 'tasks', specOf(form, files.map((file) => file.name), unpackOf(files), processes, series));
      made.push(id);
      for (const file of files) {
        const of = `${file.name}${list.length > 1 ? `, for ${processes} processes` : ''}`;
        tellHow({ what: `Uploading ${of} …`, share: 0 });
        await upload(id, file, (share) => tellHow({ what: `Uploading ${of} …`, share }));
      }
    }
    tellHow({ what: 'Queueing …', share: null });
    for (const id of made) await tell('POST', taskPath(id, 'queue'));
    return made;
  } catch (error) {
    for (const id of made) {
      await tell('POST', taskPath(id, 'cancel')).catch(() => {}); // one that is queued already
      await tell('DELETE', taskPath(id)).catch(() => {});
    }
    throw error;
  }
}

// ---- the page ----

const wayTitles = { mpirun: 'mpirun', slurm: 'Slurm', ssh: 'ssh', plain: 'Plain' } as const;
type Way = keyof typeof wayTitles;
const lacks: Record<Way, string> = { mpirun: 'mpirun is missing', slurm: 'sbatch is missing', ssh: 'ssh is missing', plain: '' };
const wayHints: Record<Way, string> = {
  mpirun: 'As many processes as you say, with the MPI that the program was linked with.', slurm: 'By sbatch; the state directory has to be the same one on its nodes.',
  ssh: 'On one other machine, where scry has to be in the PATH.', plain: 'One process, without MPI.',
};

export function Submit({ session }: { session: Session }) {
  const from = usePlace().params.from ?? '';
  if (!session.rights.includes('submit'))
    return (
      <Empty page title="Your link does not let you submit tasks." command="scry serve --link --rights observe,control,submit">
        On the machine where the server runs, this prints one that does. On its command line <code>scry submit</code> does the same as this page.
      </Empty>
    );
  return from && draftNow().from !== from ? <FromTask key={from} id={from} /> : <Filled />;
}

/** Fills the form from a task that was. */
function FromTask({ id }: { id: string }) {
  const answer = useAnswer<Task>(taskPath(id));
  const [filled, setFilled] = useState(false);
  useEffect(() => {
    const task = answer.value;
    if (!task) return;
    draftKeep({ form: formOf(task), files: (task.task as { files: string[] }).files.map((name) => ({ name, size: null, from: id })), from: id });
    setFilled(true);
  }, [answer.value]);
  if (filled) return <Filled />;
  return answer.error ? <Notice tone="bad" title={answer.error.message} advice={<a href={href(['submit'])}>An empty form</a>} /> : <p class="waiting">Asking for the task …</p>;
}

function Filled() {
  const [{ form, files, from }, setState] = useState<Draft>(draftNow);
  const [refused, setRefused] = useState(missed);
  const [tried, setTried] = useState(missed !== undefined);
  const [touched, setTouched] = useState<ReadonlySet<string>>(new Set());
  const [sending, setSending] = useState<Sending>();
  const onPage = useRef(true); // uploads go on when the page is left
  useEffect(() => {
    missed = undefined;
    return () => void (onPage.current = false);
  }, []);
  const box = useRef<HTMLFormElement>(null);
  const ways = useAnswer<{ ways: { by: Way; available: boolean; root_variables: string[] }[] }>('tasks/ways').value?.ways;
  const here = ways?.filter((way) => way.available).map((way) => way.by) ?? [];
  const by = (form.by || here[0] || 'mpirun') as Way;
  const shownForm = { ...form, by };
  const check = useCheck(shownForm, files);

  const change = (next: Draft) => {
    draftKeep(next);
    setState(next);
    setRefused(undefined);
  };
  const put = (part: Partial<Form>) => {
    setTouched((old) => new Set([...old, ...Object.keys(part)]));
    change({ form: { ...form, ...part }, files, from });
  };
  const wrong = refused ?? check?.wrong;
  const errorOf = (field: string) => (wrong?.field === field && (tried || touched.has(field) || form[field as keyof Form]) ? wrong.text : undefined);

  // uploads would end with the page
  useEffect(() => {
    if (!sending) return;
    const hold = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', hold);
    return () => removeEventListener('beforeunload', hold);
  }, [sending !== undefined]);
  useEffect(() => {
    if (tried && wrong) box.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [tried]);

  const submit = () => {
    setTried(true);
    if (sending || openQuote(shownForm)) return; // what else is wrong the server says: `check` may be of what was typed before
    setSending({ what: 'Making the task …', share: null });
    const sent = draftNow();
    send(shownForm, files, setSending).then(
      (made) => {
        if (draft === sent) draftForget();
        if (!onPage.current) return;
        if (made.length === 1) go(['tasks', made[0]!]);
        else go(['tasks'], { chosen: made.join(',') });
      },
      (error: unknown) => {
        const why = blamed(faultText(error));
        if (!onPage.current) missed = why;
        setSending(undefined);
        setRefused(why);
      },
    );
  };

  const text = (name: keyof Form, label: string, more: { hint?: preact.ComponentChildren; mono?: boolean; wide?: boolean; placeholder?: string; lines?: number; numeric?: boolean } = {}) => (
    <Field label={label} hint={more.hint} error={errorOf(name)} wide={more.wide} of={(attributes) => (
      more.lines ? <textarea {...attributes} rows={more.lines} class="mono" placeholder={more.placeholder} spellcheck={false} value={String(form[name])} onInput={(e) => put({ [name]: e.currentTarget.value })} />
        : <input {...attributes} type="text" class={more.mono ? 'mono' : ''} placeholder={more.placeholder} inputMode={more.numeric ? 'numeric' : undefined} autocomplete="off" autocapitalize="off" spellcheck={false} value={String(form[name])} onInput={(e) => put({ [name]: e.currentTarget.value })} />
    )} />
  );
  const several = counts(form).length;
  const elsewhere = wrong && !Object.keys(form).includes(wrong.field) && wrong.field !== 'files' ? wrong.text : undefined;
  const root = ways?.find((way) => way.by === by)?.root_variables.filter((name) => !form.environment.includes(`${name}=`)) ?? [];
  const absent = ways?.filter((way) => !way.available) ?? [];
  return (
    <>
      <div class="bar">
        <h1>{from ? 'Run with changes' : 'Submit a task'}</h1>
        {from && <span class="soft">filled from <a class="mono" href={href(['tasks', from])}>{from}</a></span>}
        <button type="button" class="quiet end" onClick={() => (change({ form: emptyForm, files: [], from: '' }), setTouched(new Set()), setTried(false), from && go(['submit']))}>Empty the form</button>
      </div>
      <form class="task-form" ref={box} onSubmit={(e) => (e.preventDefault(), submit())} aria-label="A task">
        <section class="panel" aria-labelledby="what-title">
          <h2 id="what-title">What is to run</h2>
          <div class="fields">
            {text('program', 'Program', { mono: true, placeholder: './ocean', hint: 'A path on the server, a name in its PATH, or a file below.' })}
            {text('arguments', 'Arguments', { mono: true, placeholder: "320 320 'two words'", hint: 'As in a shell, with quotes.' })}
            {text('name', 'Name', { placeholder: format.base(form.program) || 'ocean', hint: 'For people; otherwise that of the program.' })}
          </div>
          <Files files={files} program={form.program.replace(/^\.\//, '')} error={errorOf('files')} set={(next, program) => change({ ...draftNow(), form: { ...draftNow().form, ...(program === undefined ? {} : { program }) }, files: next })} />
          <div class="fields">
            {text('build', 'Build it first by', { mono: true, wide: true, placeholder: 'make -j4', hint: unpackOf(files).length ? `A shell’s command, among the files. Before it: ${unpackOf(files).map((name) => `tar -xf ${name}`).join(' && ')}` : 'A shell’s command, among the files. Empty: nothing is built.' })}
          </div>
          <details open={!!(form.directory || form.environment) || undefined}>
            <summary>Directory and environment</summary>
            <div class="fields">
              {text('directory', 'Directory', { mono: true, placeholder: '/home/me/ocean', hint: 'In which it runs. Empty: among the files of the task.' })}
              {text('environment', 'Environment', { lines: 2, placeholder: 'OMP_NUM_THREADS=4', hint: 'A line for each variable.' })}
            </div>
          </details>
        </section>
        <section class="panel" aria-labelledby="where-title">
          <h2 id="where-title">Where, and how often</h2>
          <div class="bar">
            <Choice label="Launched by" value={by} of={(here.length ? here : [by]).map((way) => [way, wayTitles[way]] as const)} onChange={(way) => put({ by: way })} />
            <span class="soft">{wayHints[by]} {absent.length > 0 && `Not on this machine: ${absent.map((way) => `${wayTitles[way.by]} (${lacks[way.by]})`).join(', ')}.`}</span>
          </div>
          {root.length > 0 && !form.options.includes('--allow-run-as-root') && (
            <Notice title="The server runs as root, for whom Open MPI starts nothing unless that is meant." advice={
              <button type="button" onClick={() => put({ environment: [form.environment.trim(), ...root.map((name) => `${name}=1`)].filter(Boolean).join('\n') })}>It is meant: add {root.join(' and ')}</button>
            } />
          )}
          {errorOf('by') && <p class="field-error">{errorOf('by')}</p>}
          <div class="fields narrow-fields">
            {text('processes', 'Processes', { numeric: true, hint: several > 1 ? `A series of ${several} tasks: how it scales.` : '1, 2, 4, 8 makes a series.' })}
            {text('repeat', 'Repetitions', { numeric: true, hint: 'So that one bad run says nothing.' })}
            {by !== 'plain' && text('hosts', by === 'ssh' ? 'Host' : 'Hosts', { mono: true, placeholder: by === 'ssh' ? 'node7' : 'node1, node2', hint: by === 'ssh' ? 'The one on which it runs.' : 'Empty: this machine, or where the batch system says.' })}
            {by === 'slurm' && text('partition', 'Partition', { mono: true, placeholder: 'main' })}
            {by !== 'plain' && text('options', `Options of ${by === 'slurm' ? 'sbatch' : 'mpirun'}`, { mono: true, placeholder: by === 'slurm' ? '--account=ocean' : '--bind-to core' })}
          </div>
        </section>
        <section class="panel" aria-labelledby="collect-title">
          <h2 id="collect-title">What is to be collected</h2>
          <div class="fields">
            {text('functions', 'Functions', { mono: true, placeholder: 'fn:solve fn:do_*', hint: <>By name, file or library: <code>fn:solve</code>, <code>file:flux*.c</code>, <code>!fn:min</code> leaves out. <code>fn:*</code>: all of the program. Empty: none.{several > 1 && form.functions.trim() && ' Each call that is recorded takes time, which a series counts with the rest; the report of a run says how much. Empty, it is how the program itself scales.'}</> })}
            <Field label="MPI" error={errorOf('mpi')} hint="A trace is what pictures over time need." of={(attributes) => (
              <select {...attributes} value={form.mpi} onChange={(e) => put({ mpi: e.currentTarget.value })}>
                {[['', by === 'plain' ? 'as usual: what the program needs' : 'as usual: each call'], ['trace', 'trace: each call'], ['messages', 'messages: and where each one went'], ['stats', 'statistics only'], ['auto', 'as the program needs'], ['off', 'nothing']].map(([value, title]) => <option key={value} value={value}>{title}</option>)}
              </select>
            )} />
            {text('logs', 'Lines of logs', { lines: 2, placeholder: 'stdout=step (?<n>\\d+) of (?<total>\\d+)', hint: 'FILE=REGEX, a line for each; n and total make progress.' })}
          </div>
          <label class="check"><input type="checkbox" checked={form.values} onChange={(e) => put({ values: e.currentTarget.checked })} /> with the values of arguments and results <span class="soft">(needs <code>-g</code>)</span></label>
        </section>
        <section class="panel" aria-labelledby="limits-title">
          <h2 id="limits-title">Limits of each run</h2>
          <div class="fields narrow-fields">
            {text('seconds', 'Time', { placeholder: '1 h', hint: '90 s, 10 min, 2 h; 0: none.' })}
            {text('memory', 'Memory', { placeholder: 'none', hint: 'Of all processes: 4 GB.' })}
            {text('disk', 'Space on disk', { placeholder: '2 GB', hint: 'Files, output and records.' })}
          </div>
        </section>
        <section class="panel" aria-label="Submit">
          {tried && elsewhere && <Notice tone="bad" live title={elsewhere} />}
          {tried && wrong && !elsewhere && <p class="field-error" role="status">Something above is not right yet: {wrong.text}</p>}
          {sending ? (
            <div role="status">
              <p>{sending.what}</p>
              <Progress share={sending.share} label="of the upload" />
            </div>
          ) : (
            <div class="bar">
              <button class="first">{several > 1 ? `Submit ${several} tasks` : 'Submit'}</button>
              {check?.command && <><span class="soft">The same on the command line:</span> <Command text={check.command} /></>}
            </div>
          )}
        </section>
      </form>
    </>
  );
}
