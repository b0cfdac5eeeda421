// SPDX-License-Identifier: Apache-2.0
// Running time and calls of functions: of one process, and compared over all.
import './views.css';
import { jobPath, useAnswer } from '../api';
import { Answered } from '../design/parts';
import { base, count, ns } from '../format';
import type { ViewProps } from '../frame/view';
import { Measured } from './measured';
import { NoTrace } from './parts';
import { OUTSIDE, withOutside } from '../space/data';
import { usePicture } from '../space/source';
import type { Process, Profile, Row } from './profile';
import { kindOf, sum, valueOf } from './profile';

export function Functions({ id }: ViewProps) {
  const answer = useAnswer<Profile>(jobPath(id, 'profile')), picture = usePicture(id).value;
  if (answer.error?.kind === 'no_trace')
    return <NoTrace id={id} text={answer.error.message} />;
  return (
    <Answered of={answer} wait="Adding up the calls of all processes …">
      {profile => {
        const place = (one: { file: string; line: number }) => one.file ? `${base(one.file)}:${one.line}` : '';
        const lanes = picture && withOutside(picture).outside !== undefined ? picture.lanes : [];
        /** What a rank does between its calls of MPI, where only these were traced. */
        const outside = (process: Process, i: number) => Math.max(0, sum(lanes.filter(one => one.node === process.node && one.pid === process.pid).map(one => one.to_ns - one.from_ns)) -
          sum(profile.functions.map(one => one.self_ns[i] ?? 0)));
        const between = lanes.length ? profile.processes.map(outside) : [];
        const rows = (of: 'self_ns' | 'total_ns' | 'calls'): Row[] => [
          ...between.length ? [{ key: 'outside', name: OUTSIDE, about: '', class: 'compute', values: of === 'calls' ? [] : between, all: of === 'calls' ? 0 : sum(between) }] : [],
          ...profile.functions.map((one, i) => ({ key: String(i), name: one.name, about: place(one), class: kindOf(one.name), values: one[of] })),
          ...profile.python_functions.map((one, i) => ({ key: `python ${i}`, name: one.function, about: place(one), class: 'compute', values: [], all: one[of] })),
        ];
        const callRows = new Map(rows('calls').map(row => [row.key, row]));
        const calls = (row: Row, process: number | null) => valueOf(callRows.get(row.key)!, process);
        return (
          <Measured id={id} title="Functions" name="functions" what="Function" processes={profile.processes} notes={profile.functions.length ? profile.notes : undefined /* Python's have no trace, and need none */}
            measures={[
              { key: 'self', title: 'Self time', unit: 'ns', format: ns, rows: rows('self_ns') },
              { key: 'total', title: 'Total time', unit: 'ns', format: ns, rows: rows('total_ns') },
              { key: 'calls', title: 'Calls', unit: 'calls', format: count, rows: rows('calls') },
            ]}
            also={(row, process) => ['\0others', 'outside'].includes(row.key) ? [] : [{ title: 'Calls', text: count(calls(row, process)), value: calls(row, process) }]}
            empty={<NoTrace id={id} notes={profile.notes} />} />
        );
      }}
    </Answered>
  );
}
