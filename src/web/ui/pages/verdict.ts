// SPDX-License-Identifier: Apache-2.0
// What a job's page says first, in a sentence: that ranks stand still and why; and which of its tabs are empty. Pure functions.
import type { Report, Top, Why } from '../api';
import { base, rate, seconds } from '../format';

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

export const isLive = ({ state }: Pick<Top['ranks'][number], 'state'>) => state === 'computing' || state === 'in_call' || state === 'starting';

/** Nothing moves, as far as is seen from here: no rank begins or ends a call, and one at least is in one; without ranks, nothing since `moved`. Records are `known` up to then, and count
 * when they have come up to `now`; all in seconds after the start. */
export function isQuiet(ranks: Top['ranks'], moved: number, known: number, now: number): boolean {
  const live = ranks.filter(isLive);
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

type WhyRanks = Pick<NonNullable<Why['mpi']>, 'waiting' | 'polling' | 'computing' | 'stuck' | 'unheard'> & { ranks: readonly unknown[] };
/** "3 ranks: 2 stuck, 1 computes": what scry why counts. */
export function ranksHead({ ranks, waiting, polling, computing, stuck, unheard }: WhyRanks): string {
  const does = (n: number, verb: string) => `${n} ${verb}${n === 1 ? 's' : ''}`;
  const waits = stuck && stuck === waiting ? `${stuck} stuck` : does(waiting, 'wait') + (stuck ? ` (${stuck} of them stuck)` : '');
  const parts = [waits, polling && does(polling, 'poll'), does(computing, 'compute'), unheard && `${unheard} ${unheard === 1 ? 'is' : 'are'} on nodes that do not answer`];
  return `${ranks.length} rank${ranks.length === 1 ? '' : 's'}: ${parts.filter(Boolean).join(', ')}`;
}

type Growth = NonNullable<Top['growth']>;
/** Of memory that grows evenly, or did until the end: as scry top and scry report say it. */
export const growthText = ({ bytes_per_second, seconds: since, limit, limit_seconds }: Growth, over = false) =>
  over ? `its memory grew ${rate(bytes_per_second)} in its last ${seconds(since)}`
    : `its memory grows ${rate(bytes_per_second)} since ${seconds(since)}${limit_seconds === null ? '' : `; at this rate the limit of its ${limit} in ${seconds(limit_seconds)}`}`;

/** Pictures of which nothing was recorded, as far as is known. Python's functions are counted: there are no single calls of them. */
export function emptyViews(report: Pick<Report, 'functions' | 'mpi' | 'scripts' | 'parts' | 'profile'> | undefined, top: Pick<Top, 'functions' | 'ranks'> | undefined): string[] {
  if (!report && !top) return [];
  const traced = report ? report.functions.length > 0 : (top!.functions ?? []).length > 0;
  const python = !!report && [report, ...report.parts].some((one) => one.scripts.python_functions.length > 0);
  const mpi = report ? (report.mpi?.ranks.length ?? 0) > 0 : top!.ranks.length > 0, lines = report ? report.mpi?.sites.some((site) => site.file) : mpi;
  return [...(report && !report.profile ? ['profile'] : []), ...(traced ? [] : ['space', 'values']), ...(traced || python ? [] : ['functions', 'tree']), ...(traced || lines || report?.profile?.functions.some((one) => one.file) ? [] : ['source']), ...(mpi ? [] : ['communication', 'distributions'])];
}
