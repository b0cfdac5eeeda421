// SPDX-License-Identifier: Apache-2.0
// What several views need.
import { query, useAnswer, type Ps } from '../api';
import { Empty, Notice } from '../design/parts';
import { base, command } from '../format';

/** A note is a text, or has one. */
export function notesOf(notes: unknown): string[] {
  return (Array.isArray(notes) ? notes : []).map(note => typeof note === 'string' ? note : String((note as { text?: string }).text ?? '')).filter(text => text !== '');
}

const launchers = /^(mpirun|mpiexec|orterun|prterun|srun)\b/;

/** The job has no trace: how to get one, for what it is. */
export function NoTrace({ id, text, notes }: { id: string; text?: string; notes?: unknown }) {
  const argv = useAnswer<Ps>(`jobs${query({ text: id, limit: 20 })}`).value?.jobs.find(job => job.id === id)?.argv;
  const [why = 'the job has no trace', ...more] = text ? [text, ...notesOf(notes)] : notesOf(notes);
  const mpi = argv ? launchers.test(base(argv[0] ?? '')) : false;
  return (
    <>
      <Empty title={`${why[0]!.toUpperCase()}${why.slice(1)}.`} command={`scry run --trace 'fn:*'${mpi ? ' --mpi trace' : ''} -- ${argv ? command(argv) : './program'}`}>
        Functions that were compiled with <code>-g -finstrument-functions</code> are recorded with <code>--trace</code>{mpi && <>, calls of MPI and messages with <code>--mpi trace</code></>}. The next run will have them:
      </Empty>
      {more.map(note => <Notice key={note} title={note} />)}
    </>
  );
}
