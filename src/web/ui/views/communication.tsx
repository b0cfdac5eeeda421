// SPDX-License-Identifier: Apache-2.0
// Communication of ranks: what each call of MPI moved, and who sent how much to whom.
import './views.css';
import { jobPath, useAnswer } from '../api';
import { Answered, Empty } from '../design/parts';
import { count, ns, size } from '../format';
import type { ViewProps } from '../frame/view';
import { Matrix } from './matrix';
import { Measured } from './measured';
import { NoMpi } from './parts';
import type { Row, Volume } from './profile';

/** One below the other, in this order: what comes later moves nothing. */
export function Communication({ id }: ViewProps) {
  const answer = useAnswer<Volume>(jobPath(id, 'volume'));
  if (answer.error?.kind === 'no_trace')
    return <NoMpi id={id} />;
  return (
    <Answered of={answer}>
      {volume => (
        <>
          <Calls id={id} volume={volume} />
          <Matrix id={id} />
        </>
      )}
    </Answered>
  );
}

function Calls({ id, volume }: { id: string; volume: Volume }) {
  const rows = (of: 'sent_bytes' | 'received_bytes' | 'calls' | 'total_ns'): Row[] => volume.calls.map((one, i) => ({ key: String(i), name: one.name, about: one[of].includes(null as never) ? 'not known of all ranks' : '', class: one.class, values: one[of].map((v) => v ?? 0) }));
  return (
    <Measured id={id} title="Communication" name="communication" what="Call" processes={volume.processes} notes={volume.notes}
      measures={[
        { key: 'sent', title: 'Sent', unit: 'bytes', format: size, rows: rows('sent_bytes') },
        { key: 'received', title: 'Received', unit: 'bytes', format: size, rows: rows('received_bytes') },
        { key: 'calls', title: 'Calls', unit: 'calls', format: count, rows: rows('calls') },
        { key: 'time', title: 'Time', unit: 'ns', format: ns, rows: rows('total_ns') },
      ]}
      empty={<Empty title="No call of MPI of this kind was counted in this job.">Another measure above may have some.</Empty>} />
  );
}
