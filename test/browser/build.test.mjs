// SPDX-License-Identifier: Apache-2.0
// What is bundled: the same from the same sources, nothing that the policy of content forbids, nothing of another host.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { build, ownDirectory } from './harness.mjs';

const script = path.resolve(import.meta.dirname, '../../src/web/ui/build.mjs');
const pages = path.join(build, 'src/web/ui/pages');

test('the same sources give the same bytes', () => {
  const directory = ownDirectory();
  const output = path.join(directory, 'files.c');
  execFileSync(process.execPath, [script, output, path.join(directory, 'pages'), path.join(directory, 'files.d')], { cwd: directory, env: { ...process.env, TZ: 'Asia/Tokyo' } });
  assert.ok(fs.readFileSync(output).equals(fs.readFileSync(path.join(build, 'src/web/ui/files.c'))), 'files.c differs');
  assert.match(fs.readFileSync(path.join(directory, 'files.d'), 'utf8'), /main\.tsx/);
});

test('no scripts or styles in the page, no code out of text, no other host', () => {
  const html = fs.readFileSync(path.join(pages, 'index.html'), 'utf8');
  assert.doesNotMatch(html, /<script(?![^>]* src=)|<style|\son\w+=|style=/);
  for (const [, address] of html.matchAll(/(?:src|href)="([^"]+)"/g)) assert.match(address, /^[\w.]+$/, 'relative');
  const code = ['pages.js', 'tiles.js'].map((name) => fs.readFileSync(path.join(pages, name), 'utf8')).join('');
  const found = (text, pattern) => [...text.matchAll(pattern)].map((m) => m[0]);
  assert.deepEqual(found(code, /\beval\(|new Function\(|document\.write/g), []);
  const hosts = found(code + fs.readFileSync(path.join(pages, 'pages.css'), 'utf8'), /\b(?:https?|wss?):\/\/[\w.-]+/g);
  assert.deepEqual(hosts.filter((host) => host !== 'http://www.w3.org'), [], 'names of formats are no hosts that are asked');
});

test('text becomes markup nowhere', () => {
  const ui = path.dirname(script);
  for (const name of fs.readdirSync(ui, { recursive: true }).filter((n) => /\.tsx?$/.test(n) && !n.startsWith('node_modules')))
    assert.doesNotMatch(fs.readFileSync(path.join(ui, name), 'utf8').match(/.*(innerHTML|insertAdjacentHTML|InnerHTML).*/)?.[0] ?? '', /./, name);
});

test('the page is there soon: it is small', () => {
  const bytes = ['pages.js', 'tiles.js', 'pages.css', 'index.html'].reduce((sum, name) => sum + fs.statSync(path.join(pages, name)).size, 0);
  assert.ok(bytes < 400_000, `${bytes} bytes before compression`);
});
