// SPDX-License-Identifier: Apache-2.0
// Modules of the pages, for tests without a browser: bundled({name: './file'}) → {name: module}.
import { createRequire } from 'node:module';
import path from 'node:path';

const ui = path.join(import.meta.dirname, '../../src/web/ui');

export async function bundled(names) {
  const esbuild = createRequire(path.join(ui, 'package.json'))('esbuild');
  const { outputFiles } = esbuild.buildSync({
    stdin: { contents: Object.entries(names).map(([name, file]) => `export * as ${name} from '${file}';`).join('\n'), resolveDir: ui, loader: 'ts' },
    bundle: true, format: 'esm', write: false, jsx: 'automatic', jsxImportSource: 'preact', logLevel: 'error',
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`);
}
