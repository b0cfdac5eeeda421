// SPDX-License-Identifier: Apache-2.0
// A job's page: what it does now, or how it ended, and a tab for each picture of it.
import { jobPath, useAnswer, type Session, type Top } from '../api';
import { Answered, Empty, Tabs } from '../design/parts';
import { href } from '../state';
import { views } from '../views';

export function Job({ id, tab, session }: { id: string; tab: string; session: Session }) {
  const answer = useAnswer<Top>(jobPath(id));
  const own = views.filter((v) => v.of === 'job');
  const view = own.find((v) => v.name === tab);
  return (
    <>
      <h1>{id}</h1>
      <Tabs label="Parts of the job" chosen={tab} tabs={[{ key: '', title: 'Now', href: href(['jobs', id]) }, ...own.map((v) => ({ key: v.name, title: v.title, href: href(['jobs', id, v.name]) }))]} />
      <Answered of={answer}>{(job) => (view ? <view.draw key={view.name} id={id} job={job} session={session} /> : tab ? <Empty title="There is no such part of a job." /> : <p>{job.status}</p>)}</Answered>
    </>
  );
}
