// SPDX-License-Identifier: Apache-2.0
// What several views need.
import { Empty, Notice } from '../design/parts';

/** A note is a text, or has one. */
export function notesOf(notes: unknown): string[] {
  return (Array.isArray(notes) ? notes : []).map(note => typeof note === 'string' ? note : String((note as { text?: string }).text ?? '')).filter(text => text !== '');
}

/** The job has no trace: how to get one. */
export function NoTrace({ text, notes }: { text?: string; notes?: unknown }) {
  const [why, ...more] = text ? [text, ...notesOf(notes)] : notesOf(notes);
  return (
    <>
      <Empty title="This job recorded no single calls." command="scry run --trace 'fn:*' --mpi trace -- mpirun -n 4 ./program">
        {why || 'Functions are recorded with --trace, calls of MPI and messages with --mpi trace. The next run will have them:'}
      </Empty>
      {more.map(note => <Notice key={note} title={note} />)}
    </>
  );
}
