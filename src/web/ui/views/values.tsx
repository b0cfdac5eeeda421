// SPDX-License-Identifier: Apache-2.0
// Calls of a function with the values they were given and gave back: a row each.
import { useEffect, useState } from 'preact/hooks';
import { jobPath, query, useAnswer } from '../api';
import { Answered, Empty, Notice } from '../design/parts';
import type { Column } from '../design/table';
import { Table } from '../design/table';
import { base, count, ns } from '../format';
import type { ViewProps } from '../frame/view';
import { PictureFrame } from '../pictures';
import { go, useParam } from '../state';
import type { FunctionInfo, Picture } from '../space/data';
import { usePicture, type ValuedCall, type ValuedSearch } from '../space/source';
import { timeText } from '../space/ticks';
import { NoTrace, useCommand } from './parts';

const MOST = 1000, NAMES_MOST = 8;

export function Values({ id }: ViewProps) {
  const picture = usePicture(id);
  if (picture.error?.kind === 'no_trace')
    return <NoTrace id={id} text={picture.error.message} />;
  return (
    <Answered of={picture} wait="Reading the trace …">
      {value => value.lanes.length ? <Asked id={id} picture={value} /> : <NoTrace id={id} notes={value.notes} />}
    </Answered>
  );
}

/** As a number, if it is one: so a column is sorted by it. */
export function sortable(value: string | null): string | number | null {
  return value !== null && value.trim() !== '' && Number.isFinite(Number(value)) ? Number(value) : value;
}

/** Names of arguments, as calls come to have them. */
export const namesOf = (calls: readonly ValuedCall[]): string[] => [...new Set(calls.flatMap(call => call.arguments.map(one => one.name)))];
const column = (key: string, title: string, value: (call: ValuedCall) => string | null): Column<ValuedCall> =>
  ({ key, title, cell: call => <span class="mono" title={value(call) ?? undefined}>{value(call)}</span>, value: call => sortable(value(call)) });
const argumentOf = (call: ValuedCall, name: string) => call.arguments.find(one => one.name === name)?.value ?? null;

/** What there is to be asked for. */
function Recorded({ picture, again, choose }: { picture: Picture; again: (options: string) => string; choose: (name: string) => void }) {
  const functions = picture.functions.filter(one => one.values);
  if (!functions.length && picture.complete)
    return <Empty title="No values were recorded." command={again("--trace 'fn:*' --args")}>Calls of functions that were compiled with <code>-g</code> have them if the job is run so:</Empty>;
  return (
    <>
      <p>{functions.length ? 'Values of calls of these functions were recorded:' : 'Reading the trace …'}</p>
      <Table label="Functions with values" rows={functions} rowKey={one => one.id} sort="name" onOpen={one => choose(one.name)} columns={[
        { key: 'name', title: 'Function', cell: one => <span class="mono">{one.name}</span>, value: one => one.name },
        ...(functions.some(one => one.file) ? [{ key: 'file', title: 'Defined', fill: true, cell: (one: FunctionInfo) => <span class="soft">{one.file && `${base(one.file)}:${one.line}`}</span>, value: (one: FunctionInfo) => `${one.file}:${one.line}` }] : []),
      ]} />
      {functions.length > 0 && picture.complete && functions.every(one => one.class !== 'compute') && <p class="soft">Those of the program have them in a run with <code>{again("--trace 'fn:*' --args")}</code>, if it was compiled with <code>-g</code>.</p>}
    </>
  );
}

function Asked({ id, picture }: { id: string; picture: Picture }) {
  const [text, setText] = useParam('q');
  const [begins, setBegins] = useState<number[]>([]); // of the batches so far; the last one is shown
  const { again } = useCommand(id);
  const from = begins[begins.length - 1];
  const found = useAnswer<ValuedSearch>(text ? jobPath(id, 'search') + query({ function: text, from, limit: MOST, values: 1 }) : null);
  useEffect(() => setBegins([]), [text]);
  const calls = text ? found.value?.calls ?? [] : [], names = namesOf(calls), first = begins.length * MOST;
  const nameOf = (call: ValuedCall) => picture.functions[call.function]?.name ?? '?', laneOf = (call: ValuedCall) => picture.lanes[call.lane]?.label ?? '?';
  const span = picture.to_ns - picture.from_ns, hasResult = calls.some(call => call.result !== null);
  const apart = names.length <= NAMES_MOST && calls.every(call => call.function === calls[0]!.function); // a column for each argument
  const columns: Column<ValuedCall>[] = [
    { key: 'call', title: 'Call', cell: call => <span class="mono">{nameOf(call)}</span>, value: nameOf },
    { key: 'lane', title: 'Lane', wide: true, cell: laneOf, value: call => call.lane },
    { key: 'begin', title: 'Begin', number: true, cell: call => timeText(call.begin, span / MOST), value: call => call.begin },
    { key: 'length', title: 'Length', number: true, cell: call => ns(call.end - call.begin), value: call => call.end - call.begin },
    ...(hasResult ? [column('result', 'Result', call => call.result)] : []),
    ...(apart ? names.map((name, i) => column(`argument${i}`, name, call => argumentOf(call, name))) :
      [{ ...column('arguments', 'Arguments', call => call.arguments.map(one => `${one.name} = ${one.value}`).join(', ')), fill: true }]),
  ];
  const table = () => ({
    columns: ['call', 'lane', 'begin_ns', 'end_ns', ...names, ...(hasResult ? ['result'] : [])],
    rows: calls.map(call => [nameOf(call), laneOf(call), call.begin, call.end, ...names.map(name => argumentOf(call, name)), ...(hasResult ? [call.result] : [])]),
  });
  const to = (call: ValuedCall) => go(['jobs', id, 'space'], { q: nameOf(call), at: `${Math.max(picture.from_ns, 2 * call.begin - call.end)}-${Math.min(picture.to_ns, 2 * call.end - call.begin)}` });
  return (
    <PictureFrame title="Values" of={id} picture={{ name: 'values', svg: null, table }} about={<>Arguments and results of calls, as far as they were recorded. <span class="no-print">A click on a row shows the call in space and time.</span></>}>
      <form class="values-asked" role="search" onSubmit={e => e.preventDefault()}>
        <label>Calls of <input type="search" list="values-functions" placeholder="a function, e.g. do_jacobi or do_*" value={text} onChange={e => setText(e.currentTarget.value.trim())} /></label>
        <datalist id="values-functions">{picture.functions.slice(0, 1000).map(one => <option key={one.id} value={one.name} />)}</datalist>
        <span role="status">{calls.length > 0 && `${count(first + 1)} to ${count(first + calls.length)}${found.value?.complete ? ', all of them' : ''}`}</span>
        {begins.length > 0 && <button type="button" onClick={() => setBegins(begins.slice(0, -1))}>The calls before</button>}
        {found.value?.complete === false && <button type="button" onClick={() => setBegins([...begins, found.value!.next_ns!])}>The next calls</button>}
      </form>
      {!text ? <Recorded picture={picture} again={again} choose={setText} /> : (
        <Answered of={found} wait="Looking …">
          {() => calls.length ? (
            <>
              {!names.length && !hasResult && <Notice title="No values of these calls were recorded." advice={<>With <code>{again("--trace 'fn:*' --args")}</code> they are, of functions that were compiled with <code>-g</code>.</>} />}
              <Table label="Calls and their values" rows={calls} rowKey={call => `${call.lane} ${call.depth} ${call.begin}`} columns={columns} sortParam="vs" sort="begin" onOpen={to} />
            </>
          ) : <Empty title="No call of such a function was found.">{found.value?.complete === false ? 'So far: the trace is long, the button above looks further.' : 'Names are those of the program; * stands for anything.'}</Empty>}
        </Answered>
      )}
    </PictureFrame>
  );
}
