// SPDX-License-Identifier: Apache-2.0
// The profile of any job, by samples: paths of calls as nested boxes, and its functions; where it used processors, or where it waited.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { jobPath, query, useAnswer, type Top } from '../api';
import { Answered, Choice, Empty, Notice, Unit } from '../design/parts';
import { Table, type Column } from '../design/table';
import { base, count, ns, share } from '../format';
import type { ViewProps } from '../frame/view';
import { PictureFrame } from '../pictures';
import { href, setParams, useParam } from '../state';
import { OverTime, type Window } from './overtime';
import { useCommand } from './parts';
import { processLabel, severalWorlds } from './profile';
import { keysOf, nameOf, treeOf, waitsText, type Part, type SampledFunction, type Samples } from './samples';
import { Flame, matcher } from './tree';

const FRESH = 3; // seconds
const COVERED = 0.9; // of the processor time: below it is said

/** While the job runs it is asked again, also where there is nothing yet. */
function useSamples(id: string, asked: { process: string; program: string; thread: string; from: string; to: string }) {
  const top = useAnswer<Top>(jobPath(id), (value) => (value.status === 'running' ? FRESH : 0));
  const runs = top.value?.status === 'running';
  const answer = useAnswer<Samples>(top.waiting ? null : jobPath(id, 'samples') + query(asked), runs ? FRESH : 0);
  const none = answer.error?.kind === 'no_trace';
  useEffect(() => {
    const timer = runs && none ? window.setTimeout(answer.again, FRESH * 1000) : 0;
    return () => clearTimeout(timer);
  }, [runs, none, answer.error]);
  return { answer, runs, none };
}

export function Sampled({ id }: ViewProps) {
  const [process] = useParam('process'), [program] = useParam('program'), [thread] = useParam('thread'), [from] = useParam('from'), [to] = useParam('to');
  const { answer, runs, none } = useSamples(id, thread ? { process: '', program: '', thread, from: '', to: '' } : { process, program, thread, from, to }), last = useRef<Samples>(), { again } = useCommand(id);
  if (none && !answer.value)
    return (
      <Empty title={`${answer.error!.message.slice(0, 1).toUpperCase()}${answer.error!.message.slice(1)}.`} command={runs ? undefined : again('--profile 200')}>
        Each job is sampled 49 times a second of its processor time, whatever it is written in; {runs ? 'this page goes on by itself when there is something to show.' : <>a short one needs more: <code>--profile 200</code>.</>}
      </Empty>
    );
  last.current = answer.value ?? last.current; // what was there stays while another part of it is asked for
  return (
    <Answered of={{ ...answer, value: last.current, error: none ? undefined : answer.error }} wait="Reading the samples …">
      {(samples) => <Shown id={id} samples={samples} process={process} program={program} thread={thread} over={!runs} window={!thread && (from || to) ? { from: Number(from), to: Number(to) } : null} />}
    </Answered>
  );
}

function Shown({ id, samples, process, program, thread, over, window }: { id: string; samples: Samples; process: string; program: string; thread: string; over: boolean; window: Window | null }) {
  const [chosen, setPart] = useParam('of', samples.self_ns > 0 || !(samples.waiting_ns > 0) ? 'cpu' : 'waiting'), part: Part = chosen === 'waiting' ? 'waiting' : 'cpu';
  const [at, setAt] = useParam('at');
  const nodes = useMemo(() => treeOf(samples, part), [samples, part]), keys = useMemo(() => keysOf(nodes), [nodes]);
  const several = severalWorlds(samples.processes.filter((one) => one.rank !== null)), all = part === 'cpu' ? samples.self_ns : samples.waiting_ns;
  const processes = useMemo(() => [...samples.processes].sort((a, b) => (a.world ?? 0) - (b.world ?? 0) || (a.rank ?? Infinity) - (b.rank ?? Infinity) || 0), [samples]);
  const label = (one: Samples['processes'][number]) => `${processLabel(one, several)}${one.rank === null ? '' : ` · ${one.name} ${one.pid}`}`;
  const choose = (value: string) => {
    const is = (kind: string) => (value.startsWith(kind) ? value.slice(1) : '');
    setParams({ process: is('p'), program: is('n'), thread: is('t'), at: '', ...(is('t') && { from: '', to: '' }) }); // of a thread nothing is known by time
  };
  const threadLabel = (one: Samples['threads'][number]) => {
    const its = samples.processes.find((other) => other.key === one.process);
    return `${one.name} ${one.tid}${its && samples.process_count > 1 ? ` · ${label(its)}` : ''}`;
  };
  const controls = (
    <>
      <Choice label="Which time" value={part} of={[['cpu', 'On a processor'], ['waiting', 'Waiting']]} onChange={(value) => (setPart(value), setAt(''))} />
      {(samples.process_count > 1 || samples.threads.length > 0) && (
        <label>of <select aria-label="Process" value={thread ? `t${thread}` : process ? `p${process}` : program ? `n${program}` : ''} onChange={(e) => choose(e.currentTarget.value)}>
          <option value="">{samples.process_count > 1 ? `all ${count(samples.process_count)} processes` : 'all threads'}</option>
          {samples.programs.length > 1 && <optgroup label="Programs">{samples.programs.map((name) => <option key={name} value={`n${name}`}>{name}</option>)}</optgroup>}
          {samples.process_count > 1 && <optgroup label="Processes">{processes.map((one) => <option key={one.key} value={`p${one.key}`}>{label(one)}</option>)}</optgroup>}
          {samples.threads.length > 0 && <optgroup label="Threads">{samples.threads.map((one) => <option key={one.key} value={`t${one.key}`}>{threadLabel(one)}</option>)}</optgroup>}
        </select></label>
      )}
    </>
  );
  const inSpans = (time: number) => Math.round(time / samples.span_ns), span = window && samples.span_ns > 0 ? { from: inSpans(window.from), to: inSpans(window.to) } : null;
  const chooseTime = (one: Window | null) => setParams({ from: one ? Math.round(one.from * samples.span_ns) : '', to: one ? Math.round(one.to * samples.span_ns) : '' });
  const about = samples.refused ? <>Perf events are not allowed here ({samples.refused}): as wide as the time on processors of each process, and of functions of Python.</> : part === 'cpu'
    ? <>{count(samples.samples)} samples, {samples.hz} a second: as wide as the time on processors, {ns(samples.self_ns)} in all, with what it calls below.</>
    : <>As wide as the time that threads waited in it, {ns(samples.waiting_ns)} in all, with what it calls below.</>;
  const notes = [
    ...(samples.lost ? [`${count(samples.lost)} samples were lost: the node was too busy to take them`] : []),
    ...(part === 'cpu' && !process && !program && !thread && !window && !samples.refused && samples.self_ns < COVERED * samples.cpu_ns
      ? [`of ${ns(samples.cpu_ns)} they have seen ${ns(samples.self_ns)}: threads and processes shorter than ${Math.round(1000 / samples.hz)} ms are not sampled${samples.kernel ? '' : ', nor is the kernel’s time (perf_event_paranoid)'}`] : []),
  ];
  return (
    <>
      <OverTime id={id} samples={samples} part={part} over={over} chosen={span} onChoose={chooseTime} />
      <Flame id={id} title="Profile" name={`profile-${part}`} about={about} hint="Coloured by name." nodes={nodes} notes={notes} controls={controls}
        focus={at ? keys.indexOf(at) : -1} onFocus={(node) => setAt(keys[node] ?? '')} link={(name) => <ToSource id={id} of={samples.functions.find((one) => nameOf(one) === name)} />} />
      {!all && <Notice title={part === 'cpu' ? 'No sample was taken here: it used too little processor time.' : 'No thread was seen to wait here.'} />}
      <Functions key={part} id={id} samples={samples} part={part} all={all} />
    </>
  );
}

/** To the line where a function begins, if that is known. */
const ToSource = ({ id, of: one }: { id: string; of: SampledFunction | undefined }) =>
  one?.file ? <a class="mono" href={href(['jobs', id, 'source'], { file: one.file, line: one.line || undefined })}>{base(one.file)}{one.line > 0 && `:${one.line}`}</a> : null;

function Functions({ id, samples, part, all }: { id: string; samples: Samples; part: Part; all: number }) {
  const [find, setFind] = useParam('find');
  const rows = useMemo(() => {
    const match = matcher(find);
    return samples.functions.filter((one) => (part === 'waiting' ? one.waiting_ns : one.total_ns + one.waiting_ns) > 0 && (!match || match(nameOf(one))));
  }, [samples, find, part]);
  const own = (one: SampledFunction) => (part === 'cpu' ? one.self_ns : one.waiting_ns);
  const time = (value: number) => (value > 0 ? <Unit text={ns(value)} /> : '');
  const columns: Column<SampledFunction>[] = [
    { key: 'function', title: 'Function', fill: true, cell: (f) => <span class="mono" title={`${nameOf(f)}${f.module && `, in ${f.module}`}`}>{nameOf(f)}</span>, value: nameOf },
    { key: 'share', title: part === 'cpu' ? 'Self' : 'Share', number: true, value: own, cell: (f) => own(f) > 0 && (
      <>
        <span class="cell-share" style={{ width: `${Math.round((own(f) / Math.max(1, all)) * 64)}px` }} />
        {share(own(f) / Math.max(1, all))}
      </>
    ) },
    { key: 'self', title: 'Self time', number: true, value: (f) => f.self_ns, cell: (f) => time(f.self_ns), wide: part === 'waiting' },
    { key: 'total', title: 'Total', about: 'In it, and in what it called', number: true, value: (f) => f.total_ns, cell: (f) => time(f.total_ns), wide: part === 'waiting' },
    { key: 'waiting', title: 'Waiting', number: true, value: (f) => f.waiting_ns, cell: (f) => time(f.waiting_ns), wide: part === 'cpu' },
    { key: 'for', title: 'For', wide: true, cell: (f) => <span class="soft" title={waitsText(f.waits, ns)}>{waitsText(f.waits, ns)}</span>, value: (f) => waitsText(f.waits, ns) },
    { key: 'where', title: 'Source', wide: true, cell: (f) => (f.file ? <ToSource id={id} of={f} /> : <span class="mono soft">{base(f.module)}</span>), value: (f) => f.file || f.module },
  ];
  return (
    <PictureFrame title="Functions" of={id} about="A row looks for its function above." picture={{
      name: `profile-functions`, svg: null,
      table: () => ({ columns: ['function', 'module', 'file', 'line', 'language', 'self_ns', 'total_ns', 'waiting_ns', 'processes'], rows: rows.map((f) => [nameOf(f), f.module, f.file, f.line, f.language, f.self_ns, f.total_ns, f.waiting_ns, f.processes]) }),
    }}>
      <Table label="Functions by samples" columns={columns} rows={rows} rowKey={(f) => `${nameOf(f)}\n${f.module}\n${f.file}:${f.line}`} sortParam="functions" sort={part === 'cpu' ? '-self' : '-waiting'} visible={20} onOpen={(f) => setFind(find === nameOf(f) ? '' : nameOf(f))} />
    </PictureFrame>
  );
}
