// SPDX-License-Identifier: Apache-2.0
// The site: nodes, users, and what jobs and nodes should not do.
import { useAnswer, type Site as SiteAnswer } from '../api';
import { Answered, Empty, Figure, Figures, Unit } from '../design/parts';
import { Table, type Column } from '../design/table';
import * as format from '../format';
import { href } from '../state';
import { tick } from './curves';

type Node = SiteAnswer['nodes'][number];
type User = SiteAnswer['users'][number];
type Problem = SiteAnswer['problems'][number];
type Reason = SiteAnswer['reasons'][number];

const NONE = <span class="soft">–</span>; // nobody has said it
const size = (bytes: number | null) => bytes === null ? NONE : <Unit text={format.size(bytes)} />;
const share = (value: number | null) => value === null ? NONE : format.share(value);
const counted = (n: number) => (n ? format.count(n) : <span class="soft">·</span>);
const wrong = (n: number) => (n ? <span class="bad-text">{format.count(n)}</span> : <span class="soft">·</span>);

const nodeColumns: Column<Node>[] = [
  { key: 'node', title: 'Node', cell: (n) => n.node, value: (n) => n.node },
  { key: 'running', title: 'Running', number: true, cell: (n) => counted(n.running), value: (n) => n.running },
  { key: 'jobs', title: 'Jobs', number: true, cell: (n) => counted(n.jobs), value: (n) => n.jobs },
  { key: 'wrong', title: 'Failed', about: 'failed, crashed or were killed', number: true, cell: (n) => wrong(n.wrong), value: (n) => n.wrong },
  { key: 'away', title: 'Unreachable', about: 'lost, unreachable, not watched any more', number: true, wide: true, cell: (n) => counted(n.away), value: (n) => n.away },
  { key: 'crashes', title: 'Crashes', number: true, wide: true, cell: (n) => wrong(n.crashes), value: (n) => n.crashes },
  { key: 'oom', title: 'Out of memory', about: 'processes that the kernel killed for memory', number: true, wide: true, cell: (n) => wrong(n.oom_kills), value: (n) => n.oom_kills },
  { key: 'load', title: 'Load', about: 'of the last 15 minutes, and processors', number: true, wide: true, cell: (n) => n.load === null ? NONE : <>{format.digits(n.load, 1)} <span class="soft">of {n.cpus ?? '?'}</span></>, value: (n) => (n.load === null || !n.cpus ? null : n.load / n.cpus) },
  { key: 'reserved', title: 'Reserved', about: 'processors that running jobs asked for', number: true, wide: true, cell: (n) => format.digits(n.reserved_cpus, 0), value: (n) => n.reserved_cpus },
  { key: 'memory', title: 'Memory left', about: 'the least', number: true, wide: true, cell: (n) => size(n.available_bytes), value: (n) => n.available_bytes },
  { key: 'iowait', title: 'Waits for disks', number: true, wide: true, cell: (n) => share(n.iowait), value: (n) => n.iowait },
  { key: 'problems', title: 'Problems', cell: (n) => n.problems.join(', '), value: (n) => n.problems.length },
];
const userColumns: Column<User>[] = [
  { key: 'user', title: 'User', about: 'the jobs of the user', cell: (u) => <a href={href(['jobs'], { text: u.owner })}>{u.owner}</a>, value: (u) => u.owner },
  { key: 'running', title: 'Running', number: true, cell: (u) => counted(u.running), value: (u) => u.running },
  { key: 'jobs', title: 'Jobs', number: true, cell: (u) => counted(u.jobs), value: (u) => u.jobs },
  { key: 'wrong', title: 'Failed', about: 'failed, crashed or were killed', number: true, cell: (u) => wrong(u.wrong), value: (u) => u.wrong },
  { key: 'cpu', title: 'CPU time', number: true, cell: (u) => <Unit text={format.seconds(u.cpu_seconds)} />, value: (u) => u.cpu_seconds },
  { key: 'used', title: 'Of reserved', about: 'CPU time, of the processors asked for times the time', number: true, wide: true, cell: (u) => share(u.used), value: (u) => u.used },
  { key: 'problems', title: 'Problems', number: true, cell: (u) => wrong(u.problems), value: (u) => u.problems },
];
const problemColumns: Column<Problem>[] = [
  { key: 'rule', title: 'Rule', cell: (p) => p.rule, value: (p) => p.rule },
  { key: 'owner', title: 'User', cell: (p) => p.job?.owner, value: (p) => p.job?.owner ?? null },
  { key: 'job', title: 'Job', cell: (p) => p.job && <a href={href(['jobs', p.job.id])} title={p.job.id}>{p.job.name || p.job.id}</a>, value: (p) => p.job?.name ?? null },
  { key: 'node', title: 'Node', cell: (p) => p.node, value: (p) => p.node },
  { key: 'text', title: 'Why', cell: (p) => <span title={p.text}>{p.text}</span> },
  { key: 'advice', title: 'What to do', wide: true, cell: (p) => <span title={p.advice}>{p.advice}</span> },
];

const reasonColumns: Column<Reason>[] = [
  { key: 'jobs', title: 'Jobs', number: true, cell: (r) => format.count(r.jobs), value: (r) => r.jobs },
  { key: 'text', title: 'Reason', about: 'of the newest of them', fill: true, cell: (r) => <a href={href(['jobs', r.id])} title={`${r.text}\n${r.newest.join(', ')}`}>{r.text}</a> },
];

export function Site() {
  const answer = useAnswer<SiteAnswer>('site', 15);
  return (
    <>
      <div class="bar">
        <h1>Site</h1>
        {answer.value && (
          <span class="end">
            Jobs that run, and those that ended in the last {tick(answer.value.since_seconds)}; as recorded at {format.moment(answer.value.time)}
          </span>
        )}
      </div>
      {answer.error?.kind === 'failed' && !answer.value ? (
        <Empty title={format.sentence(answer.error.message)} command="scry record --broker local">
          This page shows what a recorder keeps of the jobs of all users. Let one run; <code>scry serve --record DIR</code> shows one that is elsewhere.
        </Empty>
      ) : <Answered of={answer} wait="Asking the record …">
        {(site) =>
          site.jobs === 0 ? (
            <Empty title="The record has no jobs of this time." command="scry record --broker local">
              A recorder follows the jobs of all users and keeps what they publish.
            </Empty>
          ) : (
            <>
              <div class="panel">
                <Figures>
                  <Figure text={format.count(site.jobs)} label="jobs" />
                  {site.states.map((s) => <Figure key={s.state} text={format.count(s.jobs)} label={s.state} />)}
                  <Figure text={format.count(site.nodes.length)} label="nodes" />
                  <Figure text={format.count(site.users.length)} label="users" />
                </Figures>
              </div>
              <section class="panel" aria-label="Problems">
                <h2>Problems</h2>
                {site.problems.length ? <Table label="Problems" columns={problemColumns} rows={site.problems} rowKey={(p) => `${p.rule} ${p.node} ${p.job?.id}`} sortParam="problems" /> : <p class="soft">No job and no node breaks a rule of scry-site(1).</p>}
              </section>
              {site.reasons.length > 0 && (
                <section class="panel" aria-label="Failures">
                  <h2>Failures</h2>
                  <Table label="Failures" columns={reasonColumns} rows={site.reasons} rowKey={(r) => `${r.owner}/${r.id}`} sortParam="failures" sort="-jobs" visible={10} />
                </section>
              )}
              <div class="stack">
                <section class="panel nodes" aria-label="Nodes">
                  <h2>Nodes</h2>
                  <Table label="Nodes" columns={nodeColumns} rows={site.nodes} rowKey={(n) => n.node} sortParam="nodes" sort="node" />
                </section>
                <section class="panel" aria-label="Users">
                  <h2>Users</h2>
                  <Table label="Users" columns={userColumns} rows={site.users} rowKey={(u) => u.owner} sortParam="users" sort="-cpu" />
                </section>
              </div>
            </>
          )
        }
      </Answered>}
    </>
  );
}
