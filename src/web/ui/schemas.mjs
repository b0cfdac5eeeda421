// SPDX-License-Identifier: Apache-2.0
// schemas.mjs OUTPUT SCHEMA…
// Writes the TypeScript types of what scry's commands print, from the schemas in doc/reference: report-diff.schema.json is ReportDiff.
// Only the check of types needs them: what is bundled has no types.
import fs from 'node:fs';
import path from 'node:path';

const [output, ...schemas] = process.argv.slice(2);

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

let text = '';
for (const file of schemas) {
  const schema = JSON.parse(fs.readFileSync(file, 'utf8'));
  const name = path.basename(file, '.schema.json').replace(/(?:^|-)(\w)/g, (_, letter) => letter.toUpperCase());
  text += `/** ${schema.title} */\nexport type ${name} = ${typeOf(schema, '')};\n`;
}
fs.writeFileSync(output, text);
