// SPDX-License-Identifier: Apache-2.0
// build.mjs OUTPUT.c FOLDER [DEPENDENCIES]
// Bundles the pages into FOLDER (index.html, pages.js, pages.css, tiles.js, icon.svg) and writes them as the C table that web/http/request.h
// declares, sorted by path. Nothing of where and when it ran is in them, so the same sources give the same bytes. DEPENDENCIES: a file that says,
// as make does, which files they are made from.
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import esbuild from 'esbuild';

const here = import.meta.dirname;
const [output, folder, dependencies] = process.argv.slice(2);

export function bundle(entry, outfile) {
  return esbuild.buildSync({
    absWorkingDir: here, entryPoints: { [path.parse(outfile).name]: entry }, outdir: path.resolve(path.dirname(outfile)),
    bundle: true, minify: true, format: 'esm', target: ['es2022'], jsx: 'automatic', jsxImportSource: 'preact',
    legalComments: 'none', charset: 'utf8', metafile: true, logLevel: 'warning',
  });
}

const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' };

function bytesOf(name, bytes) {
  let text = `static const unsigned char ${name}[] = {`;
  for (let i = 0; i < bytes.length; i++) text += (i % 32 ? '' : '\n') + bytes[i] + ',';
  return text + '};\n';
}

function write() {
  fs.mkdirSync(folder, { recursive: true });
  const made = [['main.tsx', 'pages.js'], ['space/decoder.ts', 'tiles.js']].map(([entry, name]) => bundle(entry, path.join(folder, name)));
  for (const name of ['index.html', 'icon.svg']) fs.copyFileSync(path.join(here, name), path.join(folder, name));

  let text = '/* Written by src/web/ui/build.mjs. */\n#include "web/http/request.h"\n\n';
  let rows = '';
  for (const [i, name] of ['icon.svg', 'index.html', 'pages.css', 'pages.js', 'tiles.js'].entries()) {
    const bytes = fs.readFileSync(path.join(folder, name));
    const gzip = zlib.gzipSync(bytes, { level: 9 });
    gzip[9] = 255; // of which system it is: unknown
    const etag = crypto.createHash('sha256').update(bytes).digest('hex').slice(0, 16);
    text += bytesOf(`file_${i}`, bytes) + bytesOf(`gzip_${i}`, gzip);
    rows += `    {"${name}", "${types[path.extname(name)]}", file_${i}, sizeof file_${i}, gzip_${i}, sizeof gzip_${i}, "\\"${etag}\\""},\n`;
  }
  text += `\nconst struct web_file web_files[] = {\n${rows}};\nconst size_t web_file_count = sizeof web_files / sizeof *web_files;\n`;
  fs.writeFileSync(output, text);

  if (dependencies) {
    const inputs = made.flatMap((one) => Object.keys(one.metafile.inputs)).map((name) => path.join(here, name));
    inputs.push(path.join(here, 'index.html'), path.join(here, 'icon.svg'));
    fs.writeFileSync(dependencies, `${output}: ${inputs.map((name) => name.replaceAll(' ', '\\ ')).join(' ')}\n`);
  }
}

if (output) write();
