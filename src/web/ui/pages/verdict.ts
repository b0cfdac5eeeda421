// SPDX-License-Identifier: Apache-2.0
// What a job's page says first, in a sentence: that ranks stand still and why, or what the time of ranks went into; and which of its tabs are empty. Pure functions.
import type { Report, Top, Why } from '../api';
import { base, seconds, share } from '../format';

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

/** It asks why by itself when nothing has moved for so long. */
export const QUIET_SECONDS = 5;

/** Nothing moves, as far as is seen from here: no rank begins or ends a call, and one at least is in one; without ranks, nothing since `moved`. Records are `known` up to then, and count
 * when they have come up to `now`; all in seconds after the start. */
export function isQuiet(ranks: Top['ranks'], moved: number, known: number, now: number): boolean {
  const live = ranks.filter((rank) => rank.state === 'computing' || rank.state === 'in_call' || rank.state === 'starting');
  if (!live.length) return known - moved >= QUIET_SECONDS && now - known < QUIET_SECONDS;
  return live.every((rank) => rank.since_seconds >= QUIET_SECONDS) && live.some((rank) => rank.state === 'in_call');
}

/** Warnings that differ by nothing but their figures, as one: the text of the last, and all of their times. The newest first. */
export function alike(warnings: readonly { t: number; text: string }[]): { text: string; times: number[] }[] {
  const by = new Map<string, { text: string; times: number[] }>();
  for (const { t, text } of warnings) {
    const key = text.replace(/\d[\d.]*/g, ''), before = by.get(key);
    by.delete(key);
    by.set(key, { text, times: [...(before?.times ?? []), t] });
  }
  return [...by.values()].reverse();
}
const TIMES = 3;
/** "At 3.00 s, 4.00 s and 9.00 s." */
export const timesText = (times: readonly number[]) => {
  const shown = times.slice(-TIMES).map(seconds), left = times.length - shown.length;
  return `At ${shown.length > 1 ? `${shown.slice(0, -1).join(', ')} and ${shown[shown.length - 1]}` : shown[0]}${left > 0 ? `, and ${left} ${left === 1 ? 'time' : 'times'} before` : ''}.`;
};

type RankThread = NonNullable<Why['mpi']>['ranks'][number]['threads'][number];
/** What a thread of a rank waits for, where, and for how long: as scry why says it. `python`: where Python has called it. */
export function waitText({ text, call, at, seconds: age }: RankThread, python: string | null = null): string {
  const where = !call ? '' : at?.function ? `, at ${at.function}${at.file ? ` (${base(at.file)}:${at.line})` : ''}` : '';
  return `${text}${where}${call && python ? `, called by ${python}` : ''}${age > 0 ? `, for ${seconds(age)}` : ''}`;
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

/** Pictures of which nothing was recorded, as far as is known. Python's functions are counted: there are no single calls of them. */
export function emptyViews(report: Pick<Report, 'functions' | 'mpi' | 'scripts' | 'parts' | 'profile'> | undefined, top: Pick<Top, 'functions' | 'ranks'> | undefined): string[] {
  if (!report && !top) return [];
  const traced = report ? report.functions.length > 0 : (top!.functions ?? []).length > 0;
  const python = !!report && [report, ...report.parts].some((one) => one.scripts.python_functions.length > 0);
  const mpi = report ? (report.mpi?.ranks.length ?? 0) > 0 : top!.ranks.length > 0, lines = report ? report.mpi?.sites.some((site) => site.file) : mpi;
  return [...(report && !report.profile ? ['profile'] : []), ...(traced ? [] : ['space', 'values']), ...(traced || python ? [] : ['functions', 'tree']), ...(traced || lines || report?.profile?.functions.some((one) => one.file) ? [] : ['source']), ...(mpi ? [] : ['communication', 'distributions'])];
}
