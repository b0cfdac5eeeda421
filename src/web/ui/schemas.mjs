// SPDX-License-Identifier: Apache-2.0
// Writes schemas.ts, the TypeScript types of what scry's commands print, from doc/reference/*.schema.json.
// With --check it only says whether schemas.ts is what it would write.
import fs from 'node:fs';
import path from 'node:path';

const here = import.meta.dirname;
const reference = path.join(here, '../../../doc/reference');
const answers = { Ps: 'ps', Top: 'top', Report: 'report', ReportDiff: 'report-diff', Why: 'why', Snapshot: 'snapshot', Site: 'site', Tasks: 'tasks', Task: 'task', TaskScaling: 'task-scaling', JobRecord: 'records' };

const comment = (schema) => (schema.description ? `/** ${schema.description.replaceAll('*/', '* /')} */ ` : '');

function typeOf(schema, indent) {
  if (schema.oneOf) return schema.oneOf.map((one) => typeOf(one, indent)).join(' | ');
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if ('const' in schema) return JSON.stringify(schema.const);
  const types = [].concat(schema.type ?? []);
  if (types.length === 0) return 'unknown';
  return types.map((type) => oneType(type, schema, indent)).join(' | ');
}

function oneType(type, schema, indent) {
  if (type === 'integer' || type === 'number') return 'number';
  if (type === 'array') {
    const item = schema.items ? typeOf(schema.items, indent) : 'unknown';
    return item.includes('|') ? `(${item})[]` : `${item}[]`;
  }
  if (type !== 'object') return type;
  if (!schema.properties) {
    const any = schema.additionalProperties;
    return `Record<string, ${any && any !== true ? typeOf(any, indent) : 'unknown'}>`;
  }
  const inner = indent + '  ';
  const required = new Set(schema.required ?? []);
  const members = Object.entries(schema.properties).map(
    ([name, member]) => `${inner}${comment(member)}${/^\w+$/.test(name) ? name : JSON.stringify(name)}${required.has(name) ? '' : '?'}: ${typeOf(member, inner)};\n`,
  );
  return `{\n${members.join('')}${indent}}`;
}

let text = '// SPDX-License-Identifier: Apache-2.0\n// Written by schemas.mjs from doc/reference/*.schema.json; a test keeps it true.\n';
for (const [name, file] of Object.entries(answers)) {
  const schema = JSON.parse(fs.readFileSync(path.join(reference, `${file}.schema.json`), 'utf8'));
  text += `\n/** ${schema.title} */\nexport type ${name} = ${typeOf(schema, '')};\n`;
}
const target = path.join(here, 'schemas.ts');
if (process.argv.includes('--check')) {
  if (fs.readFileSync(target, 'utf8') !== text) {
    console.error('src/web/ui/schemas.ts is not what doc/reference says: run node src/web/ui/schemas.mjs');
    process.exit(1);
  }
} else {
  fs.writeFileSync(target, text);
}
