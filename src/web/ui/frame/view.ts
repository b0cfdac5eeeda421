// SPDX-License-Identifier: Apache-2.0
// What the frame knows of a view: views/index.ts lists them.
import type { ComponentChild } from 'preact';
import type { Session } from '../api';

export interface ViewProps {
  /** The job's id; "" for views that are of no job. */
  id: string;
  session: Session;
}

export interface View {
  /** Its part of the address: "space" is #/jobs/ID/space, or #/compare for one of no job. */
  name: string;
  title: string;
  /** of: a tab of each job's page, or a page of its own. */
  of: 'job' | 'page';
  /** For `?`: keys that it knows, as [keys, what they do]. */
  keys?: readonly (readonly [string, string])[];
  draw: (props: ViewProps) => ComponentChild;
}
