// SPDX-License-Identifier: Apache-2.0
// Figures of functions and calls by process, and what is computed of them. Pure.

export interface Process { process: number; node: string; pid: number; rank: number | null; world: number | null; name: string }
export interface ProfileFunction { name: string; file: string; line: number; calls: number[]; total_ns: number[]; self_ns: number[] }
/** Of all processes together. */
export interface PythonFunction { function: string; file: string; line: number; calls: number; total_ns: number; self_ns: number }
export interface Profile { processes: Process[]; functions: ProfileFunction[]; python_functions: PythonFunction[]; incomplete?: boolean; notes?: unknown }
export interface VolumeCall { name: string; class: string; calls: number[]; total_ns: number[]; sent_bytes: number[]; received_bytes: (number | null)[] }
export interface Volume { processes: Process[]; calls: VolumeCall[]; notes?: unknown }

/** A row of a picture: a value for each process. `all`: only that of all together is known. */
export interface Row { key: string; name: string; about: string; class: string; values: readonly number[]; all?: number }

export const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);

/** max / mean over the processes: 1 is even; null: nothing there. */
export function imbalance(values: readonly number[]): number | null {
  const all = sum(values);
  return all > 0 ? greatest(values) * values.length / all : null;
}

/** What the greatest has more than the mean: as long all others wait for it, as a rule. */
export const beyondMean = (values: readonly number[]): number | null => values.length ? greatest(values) - sum(values) / values.length : null;

export function greatest(values: readonly number[]): number {
  let most = 0;
  for (const value of values)
    most = Math.max(most, value);
  return most;
}

const APART = 0.05, COUNTS = 0.01;

/** How the second of two figures differs from the first, to be coloured: within 5 % they are the same, and what changed by less than 1 % of the greatest change counts for nothing. */
export const changeOf = (a: number | null, b: number | null, most = 0): 'more' | 'less' | '' =>
  a === null || b === null || Math.abs(b - a) <= Math.max(APART * Math.min(a, b), COUNTS * most) ? '' : b > a ? 'more' : 'less';

export const whereGreatest = (values: readonly number[]): number => values.indexOf(greatest(values));

/** The value of a row in one process, or of all together. */
export const valueOf = (row: Row, process: number | null): number => process === null ? row.all ?? sum(row.values) : row.values[process] ?? 0;

/** The `most` greatest, and what is left as one row; rows of nothing are left out. */
export function top(rows: readonly Row[], process: number | null, most: number): { rows: Row[]; others: number } {
  const there = rows.filter(row => valueOf(row, process) > 0).sort((a, b) => valueOf(b, process) - valueOf(a, process));
  if (there.length <= most)
    return { rows: there, others: 0 };
  const rest = there.slice(most), longest = rest.reduce((length, row) => Math.max(length, row.values.length), 0);
  const values = Array.from({ length: longest }, (_, i) => rest.reduce((all, row) => all + (row.values[i] ?? 0), 0));
  return { rows: [...there.slice(0, most), { key: '\0others', name: `${rest.length} others`, about: '', class: 'other', values, all: rest.reduce((all, row) => all + valueOf(row, null), 0) }], others: rest.length };
}

/** How long a bar is, 0 to 1. Logarithmic: four powers of ten below the greatest are seen, what is there is never nothing. */
export function barLength(value: number, most: number, log: boolean): number {
  if (value <= 0 || most <= 0)
    return 0;
  return log ? Math.max(0.02, 1 + Math.log10(value / most) / 4) : value / most;
}

export function processLabel(process: Omit<Process, 'process'>, several: boolean): string {
  return process.rank === null ? `${process.name} ${process.pid}` : `rank ${process.rank}${several ? ` of program ${(process.world ?? 0) + 1}` : ''}`;
}

/** For colours only, where the server does not say it: what kind of call a function of MPI is. */
export function kindOf(name: string): string {
  const call = /^P?MPI_(.*)/.exec(name)?.[1];
  if (!call)
    return 'compute';
  if (/^File_/.test(call))
    return 'io';
  if (/^(Win_|R?put|R?get$|R?get_acc|R?acc|fetch_and|compare_and)/i.test(call))
    return 'onesided';
  if (/^I?(all|bcast|reduce|gather|scatter|barrier|scan|exscan|neighbor_)/i.test(call))
    return 'collective';
  return /^([ISBRP]*send|I?m?recv|sendrecv|isendrecv|I?m?probe|wait|test|start)/i.test(call) && call !== 'Test_cancelled' ? 'p2p' : 'other';
}

/** Beginning and end of MPI: in short jobs most of the time, and none of the program's own. */
export const isSetup = (name: string): boolean => /^P?MPI_(Init|Init_thread|Finalize|Session_init|Session_finalize)$/.test(name);

export const severalWorlds = (processes: readonly Omit<Process, 'process'>[]): boolean => new Set(processes.map(one => one.world)).size > 1;
