// SPDX-License-Identifier: Apache-2.0
// Running time and calls of functions: of one process, and compared over all.
import './views.css';
import { jobPath, useAnswer } from '../api';
import { Answered } from '../design/parts';
import { base, count, ns } from '../format';
import type { ViewProps } from '../frame/view';
import { Measured } from './measured';
import { NoTrace } from './parts';
import type { Profile, Row } from './profile';
import { kindOf, valueOf } from './profile';

export function Functions({ id }: ViewProps) {
  const answer = useAnswer<Profile>(jobPath(id, 'profile'));
  if (answer.error?.kind === 'no_trace')
    return <NoTrace id={id} text={answer.error.message} />;
  return (
    <Answered of={answer} wait="Adding up the calls of all processes …">
      {profile => {
        const place = (one: { file: string; line: number }) => one.file ? `${base(one.file)}:${one.line}` : '';
        const rows = (of: 'self_ns' | 'total_ns' | 'calls'): Row[] => [
          ...profile.functions.map((one, i) => ({ key: String(i), name: one.name, about: place(one), class: kindOf(one.name), values: one[of] })),
          ...profile.python_functions.map((one, i) => ({ key: `python ${i}`, name: one.function, about: place(one), class: 'compute', values: [], all: one[of] })),
        ];
        const callRows = new Map(rows('calls').map(row => [row.key, row]));
        const calls = (row: Row, process: number | null) => valueOf(callRows.get(row.key)!, process);
        return (
          <Measured id={id} title="Functions" name="functions" what="Function" processes={profile.processes} notes={profile.notes}
            measures={[
              { key: 'self', title: 'Self time', unit: 'ns', format: ns, rows: rows('self_ns') },
              { key: 'total', title: 'Total time', unit: 'ns', format: ns, rows: rows('total_ns') },
              { key: 'calls', title: 'Calls', unit: 'calls', format: count, rows: rows('calls') },
            ]}
            also={(row, process) => row.key === '\0others' ? [] : [{ title: 'Calls', text: count(calls(row, process)), value: calls(row, process) }]}
            empty={<NoTrace id={id} notes={profile.notes} />} />
        );
      }}
    </Answered>
  );
}
