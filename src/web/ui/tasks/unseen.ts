// SPDX-License-Identifier: Apache-2.0
// What is not in the job of a run, for people.
import type { Task } from '../api';
import { count } from '../format';

export const some = (number: number, one: string, more: string) => `${count(number)} ${number === 1 ? one : more}`;

/** Ranks and processes that nothing was recorded of, or null. */
export function unseen(run: Pick<Task['runs'][number], 'ranks' | 'ranks_counted' | 'ranks_traced' | 'untraced_processes'>): string | null {
  const { ranks, untraced_processes: letGo } = run, have = (number: number) => (number === 1 ? 'has' : 'have');
  if (ranks === null) return letGo ? `${some(letGo, 'process was', 'processes were')} not traced` : null;
  const said = ([['ranks_traced', 'trace'], ['ranks_counted', 'statistics']] as const).map(([member, what]) => {
    const lack = ranks - (run[member] ?? ranks);
    return lack > 0 && `${count(lack)} of ${some(ranks, 'rank', 'ranks')} ${have(lack)} no ${what}`;
  }).filter(Boolean);
  return said.length ? said.join(', ') : null;
}
