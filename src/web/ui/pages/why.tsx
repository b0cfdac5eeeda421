// SPDX-License-Identifier: Apache-2.0
// Why does it not move? Asked when somebody wants to know: it looks into each process.
import { useEffect, useRef, useState } from 'preact/hooks';
import { jobPath, useAnswer, type Why as WhyAnswer } from '../api';
import { Answered, More, Notice } from '../design/parts';
import * as format from '../format';
import { ranksHead, waitText } from './verdict';

const kinds: Record<string, string> = { mismatch: 'Calls that do not fit', deadlock: 'Deadlock', dead_peer: 'Waits for a rank that is gone', unmatched: 'Waits for what nobody sends', polls: 'Polls', straggler: 'One is late', died: 'Died' };

const SEEN = 40, THREADS = 4, RANKS = 64;

const Waits = ({ of }: { of: WhyAnswer['processes'] }) => (
  <>
    <ul class="why">
      {of.slice(0, SEEN).map((p, i) => (
        <li key={i}>
          <span class="soft">{p.name} ({p.pid})</span> {p.threads.slice(0, THREADS).map((t) => t.text).join('; ')}{p.threads.length > THREADS && `; and ${p.threads.length - THREADS} more threads`}
        </li>
      ))}
    </ul>
    <More than={SEEN} of={of.length} />
  </>
);

type Ranks = NonNullable<WhyAnswer['mpi']>['ranks'];
const RankLines = ({ ranks }: { ranks: Ranks }) => (
  <ul class="why">
    {ranks.slice(0, RANKS).flatMap((r) => r.threads.map((t, i) => <li key={`${r.rank} ${r.pid} ${t.tid}`}><span class="soft">rank {r.rank}</span> {waitText(t, i ? null : r.python)}</li>))}
  </ul>
);

/** `told`: the finding that stands above it already. */
function Findings({ why, told: toldAbove }: { why: WhyAnswer; told?: string }) {
  const { mpi } = why, found = new Set(mpi?.findings.flatMap((f) => f.ranks)), others = mpi?.ranks.filter((r) => !found.has(r.rank)) ?? [];
  const told = new Set(why.deadlocks.flatMap((d) => d.threads.map((t) => t.tid)));
  const stuck = why.processes.filter((p) => p.threads.some((t) => !told.has(t.tid)));
  return (
    <>
      {why.note && <Notice title={why.note} />}
      {mpi?.findings.map((f, i) => (
        <Notice key={i} tone={f.kind === 'straggler' || f.kind === 'polls' ? 'warn' : 'bad'} title={f.text === toldAbove ? null : `${kinds[f.kind] ?? f.kind}: ${f.text.replace(new RegExp(`^${f.kind}: `), '')}`}>
          <RankLines ranks={mpi.ranks.filter((r) => f.ranks.includes(r.rank))} />
          {f.victims.length > 0 && <p>Waiting for {f.ranks.length === 1 ? 'it' : 'these'}: rank{f.victims.length === 1 ? '' : 's'} {f.victims.slice(0, RANKS).join(', ')}{f.victims.length > RANKS && ' …'}</p>}
        </Notice>
      ))}
      {why.deadlocks.map((d) => (
        <Notice key={d.pid} tone="bad" title={toldAbove && why.deadlocks.length === 1 ? null : format.sentence(d.text)}>
          <ul class="why">{d.threads.map((t) => <li key={t.tid}><span class="soft">{t.name} ({t.tid})</span> {t.text}</li>)}</ul>
        </Notice>
      ))}
      {why.stall && !mpi && <Notice tone="warn" title={`It stood still for ${format.seconds(why.stall.seconds)}, at ${format.seconds(why.stall.at)}`} advice={why.stall.text} />}
      {mpi && (
        <p>
          {ranksHead(mpi)}.{mpi.still_seconds > 0 && ` None has begun or ended a call for ${format.seconds(mpi.still_seconds)}.`}
        </p>
      )}
      {others.length > 0 && <RankLines ranks={others} />}
      <More than={RANKS} of={others.length} />
      {!mpi?.findings.length && !why.deadlocks.length && !why.stall && !stuck.length && <p class="soft">Nothing stands still for a reason that scry knows.</p>}
      {mpi?.ranks.length ? stuck.length > 0 && <details><summary>{stuck.length === 1 ? 'A process that is no rank' : `${stuck.length} processes that are no ranks`}: {[...new Set(stuck.map((p) => p.name))].slice(0, 5).join(', ')}</summary><Waits of={stuck} /></details> : <Waits of={stuck} />}
    </>
  );
}

/** `still`: nothing moves, so that nobody need ask. When it has moved and stops again, it is asked again. */
export function Why({ id, mpi, still, told }: { id: string; mpi: boolean; still: boolean; told?: string }) {
  const [asked, setAsked] = useState(still), was = useRef(still), stopped = useRef(still);
  stopped.current ||= still;
  useEffect(() => {
    if (still && !was.current) (setAsked(true), asked && answer.again());
    was.current = still;
  }, [still]);
  const answer = useAnswer<WhyAnswer>(asked ? jobPath(id, 'why') : null);
  return (
    <section class="panel no-print" aria-labelledby="why-title">
      <header>
        <h2 id="why-title">{still ? 'What it waits for' : 'Does it stand still?'}</h2>
        <button type="button" onClick={() => (asked ? answer.again() : setAsked(true))}>{asked ? 'Look again' : 'Look why'}</button>
      </header>
      {!still && stopped.current && <p class="soft">It has moved since.</p>}
      {asked ? <Answered of={answer} wait="Looking into each process …">{(why) => <Findings why={why} told={told} />}</Answered>
        : <p class="soft">Looks what each {mpi ? 'rank' : 'process'} waits for; nothing is stopped meanwhile. The same as <code>scry why</code>.</p>}
    </section>
  );
}
