// SPDX-License-Identifier: Apache-2.0
// What stands around each page: the session, the address, the line to the server, help.
import assert from 'node:assert/strict';
import test from 'node:test';
import { fakeServer, openPage, shoot, violations } from './harness.mjs';

const session = { user: 'user', rights: ['observe', 'control', 'site'], version: '0.1.0' };
const api = { session, 'jobs': { jobs: [] } };

test('the token of a link leaves the address, and is given for a session', async () => {
  let given;
  const server = await fakeServer({
    ...api,
    session: async (request) => {
      let body = '';
      for await (const part of request) body += part;
      if (request.method === 'POST') given = JSON.parse(body).token;
      return session;
    },
  }, '/behind/a/proxy/');
  const page = await openPage();
  await page.goto(server.url + '#token=abc%2Bdef');
  await page.getByRole('heading', { name: 'Jobs' }).waitFor();
  assert.equal(given, 'abc+def');
  assert.doesNotMatch(page.url(), /token|abc/);
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'frame');
  assert.deepEqual(page.faults, []);
});
