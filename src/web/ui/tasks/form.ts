// SPDX-License-Identifier: Apache-2.0
// What is typed into the form of a task, and the task that it means. What is wrong with it the server says (api/tasks/check): what
// cannot be read as a number or a list goes there as it was typed, so that its one line stands beside the field.
import type { Task } from '../api';
import { quoted } from '../format';

export interface Form {
  name: string; program: string; arguments: string; directory: string; environment: string; build: string;
  processes: string; by: string; hosts: string; partition: string; options: string;
  functions: string; values: boolean; logs: string; mpi: string;
  repeat: string; seconds: string; memory: string; disk: string;
}
export const emptyForm: Form = {
  name: '', program: '', arguments: '', directory: '', environment: '', build: '', processes: '1', by: '', hosts: '', partition: '', options: '',
  functions: 'fn:*', values: false, logs: '', mpi: '', repeat: '1', seconds: '1 h', memory: '', disk: '2 GB',
};

/** task.json: members that are left out have their defaults. */
export interface Spec {
  name?: string; program?: string; arguments?: unknown; directory?: string | null; environment?: unknown; files?: string[]; build?: string | null; processes?: unknown;
  launch?: { by?: string; hosts?: string[]; partition?: string | null; options?: unknown };
  collect?: { functions?: unknown; arguments?: boolean; logs?: string[]; mpi?: string };
  repeat?: unknown; series?: string | null;
  limits?: { seconds?: unknown; memory_bytes?: unknown; disk_bytes?: unknown };
}

/** Words as a shell would make them; null: a quote is open. */
export function words(text: string): string[] | null {
  const list: string[] = [];
  let word: string | null = null, quote = '';
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (quote) {
      if (c === quote) quote = '';
      else word = (word ?? '') + (c === '\\' && quote === '"' && /["\\$`]/.test(text[i + 1] ?? '') ? text[++i]! : c);
    } else if (/\s/.test(c)) {
      if (word !== null) list.push(word);
      word = null;
    } else {
      word ??= '';
      if (c === "'" || c === '"') quote = c;
      else if (c === '\\') {
        if (i + 1 === text.length) return null;
        word += text[++i];
      } else word += c;
    }
  }
  if (quote) return null;
  return word === null ? list : [...list, word];
}

/** A field of words that end within quotes; not of one that its way to launch hides. */
export const openQuote = (form: Form) => (['arguments', 'functions', 'options'] as const).find((name) => words(form[name]) === null && !(name === 'options' && form.by === 'plain'));

const parts = (text: string) => text.split(/[\s,]+/).filter(Boolean);
const lines = (text: string) => text.split('\n').map((line) => line.trim()).filter(Boolean);
const number = (text: string) => (/^\d+$/.test(text.trim()) ? Number(text) : text.trim() || undefined);

function measured(text: string, units: Record<string, number>): unknown {
  const found = /^([\d.]+)\s*([a-z]*)$/i.exec(text.trim());
  const unit = found && units[found[2]!.toLowerCase()], value = found && unit ? Math.round(Number(found[1]) * unit) : NaN;
  return Number.isFinite(value) ? value : text.trim() || undefined;
}
const MINUTE = 60, HOUR = 3600, DAY = 86400, K = 1024;
/** "90", "5 min", "1.5 h" */
export const duration = (text: string) => measured(text, { '': 1, s: 1, m: MINUTE, min: MINUTE, h: HOUR, d: DAY });
/** "512 MB", "2G" */
export const bytes = (text: string) => measured(text, { '': 1, b: 1, k: K, kb: K, m: K ** 2, mb: K ** 2, g: K ** 3, gb: K ** 3, t: K ** 4, tb: K ** 4 });

function written(value: number, units: readonly (readonly [number, string])[]): string {
  const [unit, name] = units.find(([size]) => value > 0 && value % size === 0) ?? [1, ''];
  return name ? `${value / unit} ${name}` : String(value);
}

/** The numbers of processes: several make a series. */
export const counts = (form: Form): unknown[] => {
  const list = parts(form.processes).map(number);
  return list.length ? list : [undefined];
};

/** Only what its way to launch has: what was typed for another one stays in the form. */
const launchOf = (form: Form) => ({
  by: form.by || undefined,
  hosts: form.by === 'plain' ? [] : parts(form.hosts),
  partition: (form.by === 'slurm' && form.partition.trim()) || null,
  options: form.by === 'plain' ? [] : words(form.options) ?? form.options,
});

/** The task of a form, with so many processes. */
export function specOf(form: Form, files: string[], unpack: string[], processes: unknown, series: string | null): Spec {
  const build = [...unpack.map((name) => `tar -xf ${quoted(name)}`), ...(form.build.trim() ? [form.build.trim()] : [])].join(' && ');
  const environment: Record<string, string> = {};
  for (const line of lines(form.environment)) environment[line.split('=', 1)[0]!] = line.includes('=') ? line.slice(line.indexOf('=') + 1) : '';
  const program = form.program.trim();
  return {
    name: form.name.trim() || program.slice(program.lastIndexOf('/') + 1), program: program || undefined, arguments: words(form.arguments) ?? form.arguments,
    directory: form.directory.trim() || null, environment, files, build: build || null, processes,
    launch: launchOf(form),
    collect: { functions: words(form.functions) ?? form.functions, arguments: form.values, logs: lines(form.logs), mpi: form.mpi || undefined },
    repeat: number(form.repeat), series,
    limits: { seconds: duration(form.seconds), memory_bytes: bytes(form.memory), disk_bytes: bytes(form.disk) },
  };
}

/** The form of a task that was. */
export function formOf(task: Task): Form {
  const spec = task.task as Required<Spec>, launch = spec.launch as { by: string; hosts: string[]; partition: string | null; options: string[] };
  const collect = spec.collect as { functions: string[]; arguments: boolean; logs: string[]; mpi: string }, limits = spec.limits as { seconds: number; memory_bytes: number; disk_bytes: number };
  const sizes = [[K ** 4, 'TB'], [K ** 3, 'GB'], [K ** 2, 'MB'], [K, 'KB']] as const;
  return {
    name: spec.name, program: spec.program, arguments: (spec.arguments as string[]).map(quoted).join(' '), directory: spec.directory ?? '',
    environment: Object.entries(spec.environment as Record<string, string>).map(([name, value]) => `${name}=${value}`).join('\n'), build: spec.build ?? '',
    processes: String(spec.processes), by: launch.by, hosts: launch.hosts.join(', '), partition: launch.partition ?? '', options: launch.options.map(quoted).join(' '),
    functions: collect.functions.map((one) => (/[\s'"\\]/.test(one) ? quoted(one) : one)).join(' '), values: collect.arguments, logs: collect.logs.join('\n'), mpi: collect.mpi,
    repeat: String(spec.repeat), seconds: written(limits.seconds, [[DAY, 'd'], [HOUR, 'h'], [MINUTE, 'min'], [1, 's']]),
    memory: limits.memory_bytes ? written(limits.memory_bytes, sizes) : '', disk: written(limits.disk_bytes, sizes),
  };
}

/** Which field a line of the server is about ("" : none), and the line without the member's name. */
export function blamed(text: string): { field: keyof Form | 'files' | ''; text: string } {
  const [, member = '', rest = ''] = /^([\w.]+)[^\s:]*(?:: | (?=is missing))(.*)$/s.exec(text) ?? [];
  const fields: Record<string, keyof Form | 'files'> = {
    'launch.by': 'by', 'launch.hosts': 'hosts', 'launch.partition': 'partition', 'launch.options': 'options', 'collect.functions': 'functions', 'collect.arguments': 'values',
    'collect.logs': 'logs', 'collect.mpi': 'mpi', 'limits.seconds': 'seconds', 'limits.memory_bytes': 'memory', 'limits.disk_bytes': 'disk', files: 'files',
  };
  const first = member.split('.', 1)[0]!, field = fields[member] ?? (first in emptyForm ? (first as keyof Form) : fields[first] ?? '');
  return field ? { field, text: rest } : { field: /^a file of a task/.test(text) ? 'files' : '', text };
}
