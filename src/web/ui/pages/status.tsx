// SPDX-License-Identifier: Apache-2.0
// How a job is, in a sign and words. The server's `status` and `state` are those of scry ps and scry report.

export interface Outcome {
  /** What lists sort and filter by. */
  kind: 'running' | 'good' | 'hidden' | 'bad' | 'cancelled' | 'queued' | 'draft' | 'warn';
  text: string;
}

const names: Record<number, string> = { 1: 'SIGHUP', 2: 'SIGINT', 3: 'SIGQUIT', 4: 'SIGILL', 6: 'SIGABRT', 7: 'SIGBUS', 8: 'SIGFPE', 9: 'SIGKILL', 10: 'SIGUSR1', 11: 'SIGSEGV', 12: 'SIGUSR2', 13: 'SIGPIPE', 14: 'SIGALRM', 15: 'SIGTERM', 24: 'SIGXCPU', 25: 'SIGXFSZ' };
export const signalName = (signal: number) => names[signal] ?? `signal ${signal}`;

const words: Record<string, string> = {
  running: 'running', not_started: 'not started', unwatched: 'not watched any more', lost: 'lost', unreachable: 'not reachable', unreadable: 'not readable',
};

/** Of a row of scry ps, a report, or an answer of scry top. */
export function outcome(job: { state?: string; status?: string; exit_code?: number | null; signal?: number | null; reason?: string | null; cause?: string | null }): Outcome {
  const status = job.state && job.state !== 'ended' ? job.state : (job.status ?? 'unreadable');
  if (status === 'signaled') return { kind: 'bad', text: `killed by ${job.signal == null ? 'a signal' : signalName(job.signal)}${job.reason && job.state === undefined ? `: ${job.reason}` : ''}` };
  if (status === 'exited') {
    if (job.exit_code === undefined) return { kind: 'warn', text: 'ended' };
    if (job.exit_code) return { kind: 'bad', text: `exit status ${job.exit_code}` };
    return job.cause ? { kind: 'hidden', text: 'exit status 0' } : { kind: 'good', text: 'finished' }; // of a job that ended so the cause is what that hides
  }
  return { kind: status === 'running' ? 'running' : status === 'not_started' ? 'bad' : 'warn', text: words[status] ?? status };
}

/** Each of its own shape, so that no colour is needed. */
export const signs: Record<Outcome['kind'], string> = { running: '▸', good: '✓', hidden: '!', bad: '✗', cancelled: '■', queued: '…', draft: '○', warn: '?' };

export function State({ of }: { of: Outcome }) {
  return (
    <span class={`state ${of.kind}`}>
      <i aria-hidden="true">{signs[of.kind]}</i>
      {of.text}
    </span>
  );
}

/** Of a job at a broker, or in the record, that its own key has not signed: others may have written it. */
export const Unsigned = ({ job }: { job: { signed?: boolean | null } }) =>
  job.signed === false ? <span class="tag" title="The key of its user has not signed all of it: somebody else may have written what is said of it.">unsigned</span> : null;
