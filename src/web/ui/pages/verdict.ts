// SPDX-License-Identifier: Apache-2.0
// What a job's page says first, in a sentence: that ranks stand still and why, or what the time of ranks went into. Pure functions.
import type { Report, Top } from '../api';
import { seconds, share } from '../format';

export interface Still {
  /** No rank has moved since. */
  now: boolean;
  /** Seconds after the start. */
  since: number;
  /** "deadlock: ranks 0 and 1 wait for each other" */
  finding: string;
  /** What makes it: a line for each rank. */
  lines: string[];
}

/** Of the last standstill that was recorded, with scry why's text of that moment; `now` in seconds after the start. */
export function stillOf(stall: { t: number; seconds: number; why: string }, ranks: Top['ranks'], now: number): Still {
  const since = ranks.length ? now - Math.min(...ranks.map((rank) => rank.since_seconds)) : stall.t - stall.seconds;
  const parts = stall.why.split(/\n\s*\n/);
  const [finding = '', ...lines] = (parts.find((part) => /^[a-z][a-z_ ]*: /.test(part)) ?? parts[0]!).split('\n');
  return { now: since <= stall.t, since: Math.max(0, since), finding, lines: lines.map((line) => line.trim()) };
}

const median = (values: number[]) => [...values].sort((a, b) => a - b)[(values.length - 1) >> 1]!;
const named = (ranks: number[]) => (ranks.length === 1 ? `rank ${ranks[0]}` : ranks.length <= 4 ? `ranks ${ranks.slice(0, -1).join(', ')} and ${ranks[ranks.length - 1]}` : `${ranks.length} ranks`);
const UNEVEN = 0.1; // of the time of a rank, that others wait for

/** Of a job with ranks of MPI: who was waited for, or how much of the time was communication. null: there are none. */
export function ranksText(mpi: Pick<NonNullable<Report['mpi']>, 'ranks' | 'time'> | null): string | null {
  const ranks = (mpi?.ranks ?? []).flatMap(({ rank, time, calls }) => (time && time.total_ns > 0 ? [{ rank, time, calls }] : []));
  if (!mpi?.time || ranks.length < 2) return null;
  const computed = ranks.map((rank) => rank.time.computation_ns), most = Math.max(...computed), usual = median(computed);
  const callOf = (of: typeof ranks) => {
    const sums = new Map<string, number>();
    for (const rank of of) for (const call of rank.calls) if (call.class !== 'env') sums.set(call.name, (sums.get(call.name) ?? 0) + call.total_ns);
    return [...sums].reduce<[string, number]>((one, other) => (other[1] > one[1] ? other : one), ['', 0]);
  };
  const late = ranks.filter((rank) => rank.time.computation_ns > (most + usual) / 2), others = ranks.filter((rank) => !late.includes(rank));
  if (most - usual > UNEVEN * median(ranks.map((rank) => rank.time.total_ns)) && others.length) {
    const [call, ns] = callOf(others);
    const longest = late.length === 1 ? '' : 'up to ';
    return `${named(late.map((rank) => rank.rank))} computed for ${longest}${seconds(most / 1e9)}; ${others.length === 1 ? `rank ${others[0]!.rank}` : `the ${others.length} others`} waited in ${call || 'MPI'}${ns ? `, for ${seconds(ns / others.length / 1e9)}${others.length > 1 ? ' each' : ''}` : ''}`;
  }
  const [call, ns] = callOf(ranks), { communication_ns, total_ns } = mpi.time;
  return `the ${ranks.length} ranks were in MPI for ${share(communication_ns / total_ns)} of their time${ns > communication_ns / 2 ? `, most of it in ${call}` : ''}`;
}
