'use strict';
// The document that the page shows: reading it, the rows behind each chart, downloads, and the patches of a run that goes on.

const isTable = (thing) => typeof thing === 'object' && thing !== null;

function at(thing, path) {
  let found = thing;
  for (const key of path.split('.')) found = found?.[key];
  return found;
}

/** The embedded document: JSON, compressed where the element says so. */
async function embedded(id) {
  const node = document.getElementById(id);
  if (!node) return null;
  const text = node.textContent.trim();
  if (node.dataset.encoding !== 'gzip;base64') return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(stream).text());
}

/**
 * The rows behind a chart. Its source is a list of objects, an object of lists of equal length, or either of them for each key of an
 * object (`hosts.*`); the columns are paths in it.
 */
function rowsOf(view, spec) {
  const parts = spec.source.endsWith('.*')
    ? Object.entries(at(view, spec.source.slice(0, -2)) ?? {})
    : [['', at(view, spec.source)]];
  const columns = expanded(parts.map(([, part]) => part), spec.columns);
  const rows = [];
  for (const [name, part] of parts) {
    if (!isTable(part)) continue;
    const isList = Array.isArray(part);
    const values = columns.map(({ path }) => {
      if (path === '*') return () => name;
      if (isList) return (index) => at(part[index], path);
      const list = at(part, path);
      return (index) => list?.[index];
    });
    for (let index = 0; index < lengthOf(part); index += 1) rows.push(values.map((value) => value(index) ?? null));
  }
  return { columns, rows };
}

function lengthOf(part) {
  if (Array.isArray(part)) return part.length;
  return (part.t ?? Object.values(part).find(Array.isArray))?.length ?? 0;
}

/** A column `errors.*` stands for one column of each key. */
function expanded(parts, columns) {
  return columns.flatMap((column) => {
    if (!column.path.endsWith('.*')) return [column];
    const base = column.path.slice(0, -2);
    const keys = new Set(parts.flatMap((part) => Object.keys(at(part, base) ?? {})));
    return [...keys].map((key) => ({ ...column, heading: key, path: `${base}.${key}` }));
  });
}

const headingOf = ({ heading, unit }) => (['count', 'share', 'text', 'quantile', ''].includes(unit ?? '') ? heading : `${heading}, ${unit}`);

/** RFC 4180; a cell that a spreadsheet would take for a formula begins with an apostrophe. */
function csv({ columns, rows }) {
  const cell = (value) => {
    if (value === null || value === undefined) return '';
    if (typeof value === 'number') return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [columns.map((column) => cell(headingOf(column))), ...rows.map((row) => row.map(cell))];
  return lines.map((line) => line.join(',')).join('\r\n') + '\r\n';
}

function download(name, type, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A run that goes on: each patch is one value for each of the columns, or one object of a list.

/** Appends the values of `more` to the lists of `columns`, which stay as long as each other. */
function append(columns, more, length) {
  for (const [key, value] of Object.entries(more)) {
    if (isTable(value) && !Array.isArray(value)) {
      columns[key] ??= {};
      append(columns[key], value, length);
    } else {
      columns[key] ??= [];
      while (columns[key].length < length) columns[key].push(null);
      columns[key].push(value);
    }
  }
}

/** What a patch did not name has no value at that time. */
function level(columns, length) {
  for (const value of Object.values(columns)) {
    if (Array.isArray(value)) while (value.length < length) value.push(null);
    else if (isTable(value)) level(value, length);
  }
}

function grow(columns, more) {
  const length = columns.t?.length ?? 0;
  append(columns, more, length);
  level(columns, length + 1);
}

/** Applies a patch once: one that the document has already is left out. */
function applyPatch(view, patch) {
  const { kind, seq, ...more } = patch;
  if (isNumber(seq)) {
    if (seq <= view.seq) return;
    view.seq = seq;
  }
  switch (kind) {
    case 'second': {
      const { heat, ...second } = more;
      grow(view.seconds, second);
      for (const name of ['corrected', 'uncorrected']) if (heat?.[name]) view.heat?.[name]?.push(heat[name]);
      break;
    }
    case 'host': {
      const { host, limits: newer, ...reading } = more;
      // The limits are no column: they are those of now.
      const { limits = [], ...columns } = view.hosts[host] ?? { t: [] };
      grow(columns, reading);
      view.hosts[host] = { ...columns, limits: newer ?? limits };
      break;
    }
    case 'trial': (view.trials ??= []).push(more.trial ?? more); break;
    case 'step': case 'note': (view.events ??= []).push(more); break;
    case 'answer': view.answer = more.text; break;
    case 'end': if (more.summary) Object.assign(view, more); delete view.answer; break;
    default: break;
  }
}
