// SPDX-License-Identifier: Apache-2.0
// What happened last in a job that failed, on each layer, in the order of time.
import type { Report } from '../api';
import * as format from '../format';
import { PictureFrame } from '../pictures';

type Last = NonNullable<Report['last']>;

const layers: Record<string, string> = { rule: 'rules', python: 'Python', warning: 'warnings', function: 'functions', mpi: 'MPI', process: 'processes' };
const layerName = (stream: string) => layers[stream] ?? stream;

/** `stacks`: those of crashes are not shown elsewhere. */
export function LastEvents({ last, of, stacks }: { last: Last; of: string; stacks: boolean }) {
  const evidence = new Set(last.reason?.evidence ?? []);
  const { events } = last;
  return (
    <PictureFrame
      title="What happened last" of={of}
      picture={{
        name: 'last', svg: null,
        table: () => ({ columns: ['number', 'before_end_seconds', 'seconds', 'layer', 'weight', 'text'], rows: events.map((e, i) => [i + 1, e.before_end_seconds, e.seconds, e.stream, e.weight, e.text]) }),
      }}
    >
      <div class="table-box">
        <table class="plain-table" aria-label="What happened last">
          <thead>
            <tr><th class="number" scope="col">Before the end</th><th class="wide" scope="col">Layer</th><th scope="col">What</th></tr>
          </thead>
          <tbody>
            {events.map((e, i) => (
              <tr key={i}>
                <td class="number">{e.before_end_seconds < 0.0005 ? 'end' : format.seconds(e.before_end_seconds)}</td>
                <td class="narrow wide">{layerName(e.stream)}</td>
                <td>
                  <span class={`event ${e.weight}`}>{e.text}</span>{' '}
                  {e.seq !== undefined && evidence.has(e.seq) && <span class="tag">supports the reason</span>}
                  {e.stack && e.stack.length > 0 && (stacks || e.stream !== 'process') && <div class="mono soft">{e.stack.join(' ← ')}</div>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </PictureFrame>
  );
}
