// SPDX-License-Identifier: Apache-2.0
// What several views need.
import type { ComponentChildren } from 'preact';
import { query, useAnswer, type Ps } from '../api';
import { Command, Empty, Notice } from '../design/parts';
import { base, command, sentence } from '../format';
import { href, useParam } from '../state';

/** A note is a text, or has one. */
export function notesOf(notes: unknown): string[] {
  return (Array.isArray(notes) ? notes : []).map(note => typeof note === 'string' ? note : String((note as { text?: string }).text ?? '')).filter(text => text !== '');
}

const launchers = /^(mpirun|mpiexec|orterun|prterun|srun)\b/;
const scripts = /^(python|pypy|(ba|da|k|z)?sh\b)|\.(py|sh|bash)$/;

/** What the job ran: was it a launcher of MPI, or a script, and how it is run again with other options. */
export function useCommand(id: string): { launched: boolean; script: boolean; again: (options: string) => string } {
  const argv = useAnswer<Ps>(`jobs${query({ text: id, limit: 20 })}`).value?.jobs.find(job => job.id === id)?.argv;
  const program = base(argv?.[0] ?? '');
  return { launched: launchers.test(program), script: scripts.test(program), again: options => `scry run ${options} -- ${argv ? command(argv) : './program'}` };
}

/** Nothing of MPI was counted: most often there is none. */
export function NoMpi({ id }: { id: string }) {
  const { launched, again } = useCommand(id);
  const link = (view: string, title: string) => <a href={href(['jobs', id, view])}>{title}</a>;
  if (launched)
    return (
      <Empty title="No MPI was counted in this job." command={again('--mpi stats')}>
        No program was seen to call MPI_Init: it uses no MPI, or another library than Open MPI and MPICH, or the job ran with <code>--mpi off</code>. If it should have been counted:
      </Empty>
    );
  return (
    <Empty title="No MPI in this job.">
      No program in it was seen to call MPI_Init. In those that do, by Open MPI or MPICH, calls are counted without further options, unless <code>--mpi off</code> says otherwise. What this job did is
      in {link('space', 'space and time')} and by {link('functions', 'functions')}.
    </Empty>
  );
}

/** There are ranks in the picture, and what they did in MPI is not. */
export function UntracedMpi({ id }: { id: string }) {
  const { again } = useCommand(id);
  return (
    <Notice title="Calls of MPI were not traced: bars have the time in them, too." advice={(
      <>
        How long they took together is in <a href={href(['jobs', id, 'communication'])}>communication</a>. A run that has them here, with messages and collectives:
        <Command text={again("--trace 'fn:*' --mpi trace")} />
      </>
    )} />
  );
}

/** The job has no trace: how to get one, for what it is. */
export function NoTrace({ id, text, notes }: { id: string; text?: string; notes?: unknown }) {
  const { launched: mpi, script, again } = useCommand(id);
  const [why = 'the job has no trace', ...more] = text ? [text, ...notesOf(notes)] : notesOf(notes);
  const title = sentence(why);
  return (
    <>
      {script ? (
        <Empty title={title} command={again('--script calls')}>
          A trace is of functions that are named, or were compiled with <code>-g -finstrument-functions</code>, and of calls of MPI, in programs that a script starts as well. What is seen of the script
          itself is on the <a href={href(['jobs', id])}>page of the job</a>, and functions of Python in the <a href={href(['jobs', id, 'tree'])}>call tree</a>. A run with functions of Python:
        </Empty>
      ) : <Empty title={title} command={again(`--trace 'fn:*'${mpi ? ' --mpi trace' : ''}`)}>
        Functions that are named, as those of <code>fn:*</code>, are recorded with <code>--trace</code>{mpi && <>, calls of MPI and messages with <code>--mpi trace</code></>}. The next run will have them:
      </Empty>}
      {more.map(note => <Notice key={note} title={note} />)}
    </>
  );
}

/** A switch for pictures of functions, kept in the address: MPI_Init and MPI_Finalize are left out. `told` says what is missing then:
 * as much as `text` has it. */
export function useWithoutSetup(there: boolean): { out: boolean; control: ComponentChildren; told: (text: string) => ComponentChildren } {
  const [setup, setSetup] = useParam('setup', 'in'), out = there && setup === 'out';
  return {
    out,
    control: there && <label class="check"><input type="checkbox" checked={out} onChange={e => setSetup(e.currentTarget.checked ? 'out' : 'in')} /> Without MPI_Init, MPI_Finalize</label>,
    told: text => out && <p class="left-out" role="status">Left out: MPI_Init and MPI_Finalize, {text}</p>,
  };
}
