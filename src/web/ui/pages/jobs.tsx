// SPDX-License-Identifier: Apache-2.0
// All jobs: the newest first, states, how far they are.
import { useAnswer, type Ps } from '../api';
import { Answered } from '../design/parts';
import { href } from '../state';

export function Jobs() {
  const answer = useAnswer<Ps>('jobs?limit=200', 3);
  return (
    <>
      <h1>Jobs</h1>
      <Answered of={answer}>{({ jobs }) => <ul>{jobs.map((j) => <li key={j.id}><a href={href(['jobs', j.id])}>{j.name ?? j.id}</a> {j.state}</li>)}</ul>}</Answered>
    </>
  );
}
