// SPDX-License-Identifier: Apache-2.0
// What a job printed, as it comes and afterwards: its last lines, or those that match; what repeats is one line.
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { jobPath, query, useAnswer, type Top } from '../api';
import { Answered, Choice, Empty } from '../design/parts';
import { count, sentence, size } from '../format';
import type { ViewProps } from '../frame/view';
import { useParam } from '../state';
import { foldLines, linesOf, type Line } from './lines';

const streams = [['', 'Both'], ['stdout', 'Standard output'], ['stderr', 'Standard error']] as const;
const LINES = 2000;
const clock = (seconds: number) => new Date(seconds * 1000).toTimeString().slice(0, 8);

export function Log({ id }: ViewProps) {
  const [grep, setGrep] = useParam('grep');
  const [typed, setTyped] = useState<string | null>(null); // what comes meanwhile does not take it away
  const [stream, setStream] = useParam('stream');
  const top = useAnswer<Top>(jobPath(id), (value) => (value.status === 'running' ? 2 : 0));
  const runs = top.value?.status === 'running';
  const answer = useAnswer<Line[]>(top.waiting ? null : jobPath(id, 'logs') + query({ last: LINES, grep, stream }), runs ? 2 : 0, linesOf);
  const none = answer.error?.kind === 'failed' && !answer.value;
  return (
    <section class="panel" aria-labelledby="log-title">
      <header>
        <h2 id="log-title">What it printed</h2>
        <input type="search" aria-label="Only lines that match" placeholder="Find, e.g. error|warn" value={typed ?? grep} onInput={(e) => setTyped(e.currentTarget.value)}
          onChange={(e) => (setGrep(e.currentTarget.value.trim()), setTyped(null))} />
        <Choice label="Stream" value={stream as (typeof streams)[number][0]} of={streams} onChange={setStream} />
      </header>
      {none ? <Empty title={sentence(answer.error!.message)} /> : (
        <Answered of={answer} wait="Reading what it printed …">
          {(lines) => lines.length ? <Lines lines={lines} /> : <p class="soft">{grep ? 'No line matches.' : runs ? 'Nothing yet.' : 'Nothing.'}</p>}
        </Answered>
      )}
    </section>
  );
}

/** The last one is in sight, until somebody looks farther above. */
function Lines({ lines }: { lines: Line[] }) {
  const list = useRef<HTMLOListElement>(null), above = useRef(false);
  const [whole, setWhole] = useState(false);
  const timed = lines.some((line) => line.time !== null); // files have none
  const shown = useMemo(() => (whole ? lines.map((line) => ({ ...line, times: 1 })) : foldLines(lines)), [lines, whole]);
  useLayoutEffect(() => {
    if (list.current && !above.current) list.current.scrollTop = list.current.scrollHeight;
  });
  return (
    <>
      {lines.length >= LINES && <p class="soft">The last {count(LINES)} lines; scry logs has all.</p>}
      <ol class={`log whole ${timed ? '' : 'untimed'}`} tabIndex={0} aria-label="What the job printed" ref={list} onScroll={({ currentTarget: one }) => void (above.current = one.scrollTop + one.clientHeight < one.scrollHeight - 4)}>
        {shown.map((line, i) => (
          <li key={i} class={line.stream === 'stderr' ? 'warning' : ''}>
            {timed && <time>{line.time === null ? '' : clock(line.time)}</time>}
            <span>
              {line.text ?? <em class="soft">{size(line.missing_bytes ?? 0)} of {line.stream} are not kept</em>}
              {line.times > 1 && <span class="soft"> ×{count(line.times)}</span>}
            </span>
          </li>
        ))}
      </ol>
      {(whole || shown.length < lines.length) && <button type="button" class="quiet no-print" aria-pressed={whole} onClick={() => setWhole(!whole)}>{whole ? 'Fold what repeats' : 'Show what repeats'}</button>}
    </>
  );
}
