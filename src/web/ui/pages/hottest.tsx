// SPDX-License-Identifier: Apache-2.0
// Where a job used processors most, by samples, for its first page: where no function was traced.
import type { Report } from '../api';
import { Unit } from '../design/parts';
import { Table, type Column } from '../design/table';
import { base, seconds, share } from '../format';
import { href } from '../state';
import { nameOf } from '../views/samples';

type Profile = Pick<NonNullable<Report['profile']>, 'samples' | 'functions'>;
type Function = Profile['functions'][number];
const MOST = 6, FEW_SAMPLES = 10; // fewer say nothing of shares

/** Are there samples enough to say it? */
export const hasSamples = (profile: Profile | null | undefined): profile is Profile => !!profile && profile.samples >= FEW_SAMPLES;

export function Hottest({ id, profile }: { id: string; profile: Profile }) {
  const part = (f: Function) => f.self_samples / profile.samples;
  const rows = profile.functions.filter((f) => f.self_samples > 0).slice(0, MOST);
  const columns: Column<Function>[] = [
    { key: 'function', title: 'Function', fill: true, cell: (f) => <a class="mono" href={href(['jobs', id, 'profile'], { find: nameOf(f) })}>{nameOf(f)}</a> },
    { key: 'share', title: 'Self', number: true, cell: (f) => (
      <>
        <span class="cell-share" style={{ width: `${Math.round(part(f) * 64)}px` }} />
        {share(part(f))}
      </>
    ) },
    { key: 'self', title: 'Self time', number: true, cell: (f) => <Unit text={seconds(f.self_seconds)} /> },
    { key: 'total', title: 'Total', number: true, wide: true, cell: (f) => <Unit text={seconds(f.total_seconds)} /> },
    { key: 'where', title: 'Source', wide: true, cell: (f) => <span class="mono soft">{f.file ? `${base(f.file)}${f.line ? `:${f.line}` : ''}` : base(f.module)}</span> },
  ];
  return (
    <section class="panel" aria-label="Where processors were used">
      <header>
        <h2>Where processors were used</h2>
        <a href={href(['jobs', id, 'profile'])}>all of it</a>
      </header>
      <Table label="Functions by samples, most of their own first" columns={columns} rows={rows} rowKey={(f) => `${nameOf(f)} ${f.module} ${f.file} ${f.line}`} />
    </section>
  );
}
