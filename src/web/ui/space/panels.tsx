// SPDX-License-Identifier: Apache-2.0
// Beside the diagram: what is in the chosen part, one call, what was found.
import { jobPath, query, useAnswer } from '../api';
import { Answered, Choice } from '../design/parts';
import { Table } from '../design/table';
import { count, ns, share, size } from '../format';
import { href, useParam } from '../state';
import { classLabels } from '../design/colours';
import type { CallClass } from '../design/colours';
import type { Picture } from './data';
import { OUTSIDE, thereIn } from './data';
import type { Mark, Scene } from './scene';
import type { Named, Selection } from './source';
import { lanesOf } from './source';
import { timeText } from './ticks';
import type { Span } from './window';

export function SelectionPanel(props: { id: string; span: Span; chosen: boolean; lanes: string; picture: Picture; onSearch: (name: string) => void; onClear: () => void }) {
  const { span, picture } = props;
  const [by, setBy] = useParam('sum', 'functions');
  const answer = useAnswer<Selection>(jobPath(props.id, 'selection') + query({ from: Math.floor(span.from), to: Math.ceil(span.to), lanes: props.lanes }), picture.complete ? 0 : 3);
  const width = span.to - span.from, chosen = lanesOf(props.lanes, picture.lanes.length);
  /** Time between the calls of MPI, where only these were traced. */
  const outside = (sums: Selection) => picture.outside === undefined ? 0 :
    Math.max(0, thereIn(picture.lanes.filter(one => !chosen.size || chosen.has(one.lane)), span.from, span.to) - sums.functions.reduce((all, one) => all + one.self_ns, 0));
  const between = (sums: Selection) => outside(sums) ? [{ id: picture.outside!, name: OUTSIDE, class: OUTSIDE, calls: 0, total_ns: outside(sums), self_ns: outside(sums) }] : [];
  return (
    <section aria-label="In this part">
      <h3>{props.chosen ? 'Chosen part' : 'In the window'}</h3>
      <p class="space-span">
        {timeText(span.from, width)} – {timeText(span.to, width)}, {ns(width)}
        {props.lanes && <>, lanes {props.lanes}</>}
        {(props.chosen || props.lanes) && <button type="button" class="quiet" onClick={props.onClear}>All of the window</button>}
      </p>
      <Choice label="Sums of" value={by} of={[['functions', 'Functions'], ['classes', 'Kinds']]} onChange={setBy} />
      <Answered of={answer} wait="Adding up …">
        {sums => (
          <>
            {by === 'classes' ? (
              <Table label="Kinds of calls in this part" rows={[...between(sums), ...sums.classes]} rowKey={row => row.class} sort="-time" sortParam="ks" columns={[
                { key: 'kind', title: 'Kind', fill: true, cell: row => classLabels[(picture.unsplit && row.class === 'compute' ? 'unsplit' : row.class) as CallClass] ?? row.class, value: row => row.class },
                { key: 'calls', title: 'Calls', cell: row => row.calls ? count(row.calls) : '', value: row => row.calls, number: true },
                { key: 'time', title: 'Time', cell: row => ns(row.total_ns), value: row => row.total_ns, number: true },
              ]} />
            ) : (
              <Table label="Functions in this part" rows={[...between(sums), ...sums.functions]} rowKey={row => row.id} sort="-self" sortParam="fs" visible={14} onOpen={row => row.id !== picture.outside && props.onSearch(row.name)} columns={[
                { key: 'name', title: 'Function', fill: true, cell: row => <span title={row.name}>{row.name}</span>, value: row => row.name },
                { key: 'calls', title: 'Calls', cell: row => row.calls ? count(row.calls) : '', value: row => row.calls, number: true },
                { key: 'total', title: 'Total', cell: row => ns(row.total_ns), value: row => row.total_ns, number: true },
                { key: 'self', title: 'Self', cell: row => ns(row.self_ns), value: row => row.self_ns, number: true },
              ]} />
            )}
            {sums.messages.count > 0 && <p class="space-span">{count(sums.messages.count)} {sums.messages.count === 1 ? 'message' : 'messages'}, {size(sums.messages.bytes)}</p>}
            {picture.complete ? null : <p class="space-span">{picture.running ? 'The job runs: sums grow.' : 'The trace is still being read: sums grow.'}</p>}
          </>
        )}
      </Answered>
    </section>
  );
}

export interface CallAnswer {
  function: number; begin: number; end: number; depth: number; how?: string;
  arguments: Named[]; locals: Named[]; caller_locals: Named[]; result?: string | null; from: string | null;
  cpu_ns?: number | null; waiting_ns?: number | null; preempted_ns?: number | null;
  callers: { function: number; begin: number; end: number; depth: number }[];
}

/** How a call ended, where that is out of the ordinary. */
const HOW: Record<string, string> = { open: 'it had not ended', unwound: 'by an exception or longjmp' };

const Values = ({ title, of }: { title: string; of: Named[] | undefined }) => of?.length ? (
  <>
    <h4>{title}</h4>
    <dl class="space-facts">{of.map(one => <><dt>{one.name}</dt><dd>{one.value}</dd></>)}</dl>
  </>
) : null;

export function CallPanel({ id, picture, lane, at, depth, onClose, onGo }: {
  id: string; picture: Picture; lane: number; at: number; depth: number; onClose: () => void; onGo: (begin: number, end: number, depth: number) => void;
}) {
  const answer = useAnswer<CallAnswer>(jobPath(id, 'call') + query({ lane, at: Math.round(at), depth: depth < 0 ? undefined : depth }));
  const nameOf = (f: number) => picture.functions[f]?.name ?? '?';
  return (
    <section aria-label="Call">
      <header class="space-panel-head">
        <h3>Call</h3>
        <button type="button" class="quiet" aria-label="Close the call" onClick={onClose}>✕</button>
      </header>
      <Answered of={answer}>
        {call => {
          const place = picture.functions[call.function];
          return (
            <>
              <p class="space-call">{nameOf(call.function)}</p>
              <dl class="space-facts">
                {place?.file && <><dt>defined in</dt><dd>{place.file}:{place.line}</dd></>}
                {call.from && <><dt>called from</dt><dd>{call.from}</dd></>}
                <dt>lane</dt><dd>{picture.lanes[lane]?.label}</dd>
                <dt>begin</dt><dd>{timeText(call.begin, call.end - call.begin)}</dd>
                <dt>length</dt><dd>{ns(call.end - call.begin)}</dd>
                {call.cpu_ns != null && <><dt>on a processor</dt><dd>{ns(call.cpu_ns)}</dd></>}
                {!!call.waiting_ns && <><dt>waiting</dt><dd>{ns(call.waiting_ns)}</dd></>}
                {!!call.preempted_ns && <><dt>preempted</dt><dd>{ns(call.preempted_ns)}</dd></>}
                {call.how && HOW[call.how] && <><dt>ended</dt><dd>{HOW[call.how]}</dd></>}
                {call.result && <><dt>result</dt><dd>{call.result}</dd></>}
              </dl>
              <Values title="Arguments" of={call.arguments} />
              {(call.arguments.length > 0 || call.result) && <p class="space-span"><a href={href(['jobs', id, 'values'], { q: nameOf(call.function) })}>Values of all its calls</a></p>}
              <Values title="Local variables" of={call.locals} />
              <Values title="Variables of the caller" of={call.caller_locals} />
              {(place?.class === 'compute' || picture.unsplit) && !call.result && ![call.arguments, call.locals, call.caller_locals].some(values => values?.length) && (
                <p class="space-span">No values were recorded of it: <code>--args</code> records arguments and results, <code>--locals</code> local variables, of functions compiled with <code>-g</code>.</p>
              )}
              {call.callers.length > 0 && (
                <>
                  <h4>Called by</h4>
                  <ol class="space-callers">
                    {call.callers.map(one => (
                      <li key={one.depth}>
                        <button type="button" class="quiet" onClick={() => onGo(one.begin, one.end, one.depth)}>{nameOf(one.function)}</button> <small>{ns(one.end - one.begin)}</small>
                      </li>
                    ))}
                  </ol>
                </>
              )}
            </>
          );
        }}
      </Answered>
    </section>
  );
}

/** What is under the pointer, beside it. */
export function Tip({ scene, x, y, lane, id, part, mark, message }: {
  scene: Scene; x: number; y: number; lane: number; id: number; part: number; mark: Mark | null; message: number[] | null;
}) {
  const { picture } = scene, one = picture.functions[id], span = scene.view.to - scene.view.from;
  const right = x > scene.width / scene.look.ratio - 300;
  if (!one && !message)
    return null;
  return (
    <div class="space-tip" role="tooltip" style={{ top: `${y + 14}px`, ...(right ? { right: `${scene.width / scene.look.ratio - x + 12}px` } : { left: `${x + 12}px` }) }}>
      {message ? (
        <>
          <b>message</b> {picture.lanes[message[0]!]?.label} → {picture.lanes[message[1]!]?.label}
          <br />{size(message[4]!)} in {ns(message[3]! - message[2]!)}, sent at {timeText(message[2]!, span)}
          <br /><small>a click goes to its other end</small>
        </>
      ) : (
        <>
          <b>{one!.name}</b> <small>{picture.lanes[lane]?.label}</small>
          <br />{mark ? <>{mark.beyond && 'at least '}{ns(mark.end - mark.begin)}, from {timeText(mark.begin, span)}</> : id === picture.outside && part === 1 ? null : <>{share(part)} of this column</>}
          {mark?.open && <>, {picture.running ? 'still runs' : 'had not ended'}</>}
          {one!.class !== 'compute' && <small> {classLabels[one!.class as CallClass]}</small>}
        </>
      )}
    </div>
  );
}
