// SPDX-License-Identifier: Apache-2.0
// The site: nodes, users, and what jobs and nodes should not do.
import { useAnswer, type Site as SiteAnswer } from '../api';
import { Answered } from '../design/parts';

export function Site() {
  const answer = useAnswer<SiteAnswer>('site', 15);
  return (
    <>
      <h1>Site</h1>
      <Answered of={answer}>{(site) => <p>{site.jobs}</p>}</Answered>
    </>
  );
}
