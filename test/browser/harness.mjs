// SPDX-License-Identifier: Apache-2.0
// A browser, and a server of the pages, for tests. Everything a test starts is ended behind it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import test, { after, afterEach, beforeEach } from 'node:test';

const source = path.resolve(import.meta.dirname, '../..');
export const build = path.resolve(process.env.SCRY_BUILD ?? path.join(source, 'build/check'));
if (!fs.existsSync(path.join(build, 'src/web/ui/pages/index.html'))) throw new Error(`there are no pages in ${build}: SCRY_BUILD=DIR names the build to test`);
const require = createRequire(path.join(source, 'src/web/ui/package.json'));
const { chromium } = require('playwright-core');
const axeSource = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

// What is started is ended when the file's tests are over, the last first.
const endings = [];
const atEnd = (end) => void endings.push(end);
after(async () => {
  for (const end of endings.reverse()) await end();
});

/** How long a test waits for anything: a busy machine is no fault. */
export const TIMEOUT = 60_000;
const thorough = process.env.SCRY_TEST_THOROUGH === '1', pictures = thorough || process.env.SCRY_TEST_PICTURES === '1';
/** A test that is a variant of others: in a thorough run. */
export const variant = thorough ? test : () => {};
/** How much to do of what has variants: `many` in a thorough run. */
export const rounds = (few, many) => (thorough ? many : few);
const screenshots = path.join(build, 'test/browser/screenshots');

/** A directory of this test's own. */
export function ownDirectory() {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'scry-browser-'));
  atEnd(() => fs.rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
}

// Windows of a case are closed behind it: what nobody looks at any more would go on asking the server, and be drawn anew.
let ofCase;
beforeEach(() => void (ofCase = []));
afterEach(async () => {
  for (const context of ofCase) await context.close();
  ofCase = undefined;
});

// The shell without a window is the same engine; the whole browser draws its own window all the time, though nobody sees it.
const browsers = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];
let browser;
/** A window of Chromium. options are Playwright's of a context: viewport, colorScheme … Faults of the page and what it must not
 * load are kept in page.faults, which must be empty in the end. */
export async function openPage(options = {}) {
  if (!browser) {
    browser = await chromium.launch({
      executablePath: process.env.SCRY_CHROMIUM ?? browsers.find(fs.existsSync), timeout: TIMEOUT,
      // all in few processes: each costs more to start than most pages here cost to draw
      args: ['--renderer-process-limit=1', '--in-process-gpu', '--disable-gpu-compositing',
        '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    });
    atEnd(() => browser.close());
  }
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, colorScheme: 'light', reducedMotion: 'reduce', acceptDownloads: true, ...options });
  ofCase?.push(context);
  context.setDefaultTimeout(TIMEOUT);
  const page = await context.newPage();
  page.faults = [];
  page.on('pageerror', (error) => page.faults.push(String(error.stack ?? error)));
  page.on('console', (message) => {
    // what the server refuses is the test's business; what the browser refuses (policy, faults) is none
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) page.faults.push(message.text());
  });
  return page;
}

/** Puts a picture of the page into the build directory, for people: in a thorough run, or with SCRY_TEST_PICTURES=1. */
export async function shoot(page, name, options = {}) {
  if (!pictures) return;
  fs.mkdirSync(screenshots, { recursive: true });
  await page.screenshot({ path: path.join(screenshots, `${name}.png`), fullPage: true, ...options });
}

/** What axe-core finds wrong for people who use other means than eyes and a mouse, one line each. Contrast takes nearly all of its time,
 * element by element: of rows and items of a long list that differ by nothing but their text it looks at the first. contrast: false where
 * the same page was looked at in the same colours. */
export async function violations(page, { contrast = true } = {}) {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axeSource);
  const found = await page.evaluate(async (withContrast) => {
    const rule = 'color-contrast', few = 20; // a second run has its price, too
    const looks = (element) => `${element.nodeName} ${element.className} ${element.getAttribute('style') ?? ''} ${element.getAttribute('aria-current') ?? ''} ${element.disabled ?? ''}(${[...element.children].map(looks).join()})`;
    const alike = [...document.querySelectorAll('tbody, ul, ol')].flatMap((list) => {
      const seen = new Set();
      return [...list.children].filter((row) => seen.has(looks(row)) || !seen.add(looks(row)));
    });
    const run = async (context, options) => (await window.axe.run(context, { resultTypes: ['violations'], ...options })).violations;
    if (withContrast && alike.length < few) return run(document);
    const others = await run(document, { rules: { [rule]: { enabled: false } } });
    return withContrast ? [...others, ...(await run({ include: [document.documentElement], exclude: alike }, { runOnly: [rule] }))] : others;
  }, contrast);
  return found.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(' | ')}`);
}

const POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

/** A server of the pages whose answers the test makes: for states that are hard to bring about. `api` has functions by path, of
 * (request, response, url) → JSON, or undefined if it answered by itself. prefix: below which path it serves. */
export async function fakeServer(api, prefix = '/') {
  const server = http.createServer(async (request, response) => {
    const url = new URL(request.url, 'http://x');
    const name = url.pathname.startsWith(prefix) ? url.pathname.slice(prefix.length) : null;
    response.setHeader('Content-Security-Policy', POLICY);
    response.setHeader('X-Content-Type-Options', 'nosniff');
    try {
      if (name?.startsWith('api/')) {
        const key = Object.keys(api).find((k) => new RegExp(`^${k}$`).test(name.slice(4)));
        if (!key) return void response.writeHead(404, { 'Content-Type': 'application/json' }).end('{"error": {"kind": "unknown", "text": "there is no such path"}}');
        const answer = typeof api[key] === 'function' ? await api[key](request, response, url) : api[key];
        if (answer !== undefined) response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer));
        return;
      }
      const file = path.join(build, 'src/web/ui/pages', name || 'index.html');
      if (name === null || !fs.existsSync(file)) return void response.writeHead(404).end();
      response.writeHead(200, { 'Content-Type': types[path.extname(file)] }).end(fs.readFileSync(file));
    } catch (error) {
      response.writeHead(500, { 'Content-Type': 'application/json' }).end(JSON.stringify({ error: { kind: 'test', text: String(error.stack) } }));
    }
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  atEnd(() => (server.closeAllConnections(), server.close()));
  return { url: `http://127.0.0.1:${server.address().port}${prefix}`, server };
}

/** A sandbox of the system tests: `run(args)` runs scry to its end, `start(args)` goes on; `work` is the directory they run in. */
export async function openStage() {
  const holder = spawn('/usr/bin/python3', [path.join(import.meta.dirname, 'stage.py')], { stdio: ['pipe', 'pipe', 'inherit'] });
  const line = await new Promise((done, fail) => {
    let text = '';
    holder.stdout.on('data', (data) => (text += data).includes('\n') && done(text));
    holder.on('close', () => fail(new Error(`stage.py ended: ${text}`)));
  });
  const { root, work, env } = JSON.parse(line);
  const started = [];
  atEnd(async () => {
    for (const child of started)
      if (child.exitCode === null && child.signalCode === null) {
        process.kill(-child.pid, 'SIGKILL');
        await once(child, 'close');
      }
    holder.stdin.end();
    await once(holder, 'close');
  });
  const begin = (args, options = {}) => spawn(path.join(root, 'bin/scry'), args, { env: { ...env, ...options.env }, cwd: work, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  return {
    root, work, env,
    write(name, text, mode = 0o755) {
      fs.writeFileSync(path.join(work, name), text, { mode });
      return path.join(work, name);
    },
    /** What it printed, and its status. */
    async run(args, options) {
      const child = begin(args, options);
      started.push(child);
      let out = '', err = '';
      child.stdout.on('data', (data) => (out += data));
      child.stderr.on('data', (data) => (err += data));
      const [status] = await once(child, 'close');
      return { status, out, err };
    },
    /** `lines(pattern)` waits for a line of its standard output. */
    start(args, options) {
      const child = begin(args, options);
      started.push(child);
      let text = '';
      child.stderr.on('data', () => {});
      child.stdout.on('data', (data) => (text += data));
      child.line = (pattern) =>
        new Promise((done, fail) => {
          const look = () => pattern.exec(text) && done(pattern.exec(text));
          child.stdout.on('data', look);
          child.on('close', () => fail(new Error(`it ended, and printed ${text}`)));
          look();
        });
      return child;
    },
    end: async (child) => {
      process.kill(-child.pid, 'SIGTERM');
      await once(child, 'close');
    },
  };
}

/** Waits for a condition, as long as a busy machine may take. */
export async function until(condition, what) {
  for (const end = Date.now() + TIMEOUT; ; ) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((go) => setTimeout(go, 50));
  }
}

/** The real server in a stage: `link()` prints a link, which lets one browser in, once; `open(hash)` opens a window there, of
 * somebody who has come by a link before: all have one session. */
export async function serveStage(stage, args = []) {
  const child = stage.start(['serve', ...args]);
  const first = (await child.line(/(http:\S+#token=\S+)/))[1];
  let storageState;
  return {
    child, first,
    async open(hash, options) {
      if (!storageState) {
        const page = await openPage();
        await page.goto(await this.link());
        await page.getByRole('heading', { name: 'Jobs' }).waitFor();
        storageState = await page.context().storageState();
        await page.context().close();
      }
      const page = await openPage({ ...options, storageState });
      await page.goto(first.replace(/#.*/, hash));
      return page;
    },
    async link(rights) {
      const done = await stage.run(['serve', '--link', ...(rights ? ['--rights', rights] : [])]);
      const found = /(http:\S+#token=\S+)/.exec(done.out);
      if (!found) throw new Error(`scry serve --link: ${done.out}${done.err}`);
      return found[1];
    },
  };
}

/** A program of examples/. */
export const example = (name) => path.join(build, 'examples', name);
