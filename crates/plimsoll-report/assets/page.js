'use strict';
// Starts the page: the data, the switches, tables that sort, copies and downloads; and the run that goes on.

function button(text, onClick, attributes = {}) {
  const node = document.createElement('button');
  node.type = 'button';
  node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.addEventListener('click', onClick);
  return node;
}

// Switches: one of several buttons is pressed. The theme is kept in memory only: a file has no business in the browser's storage.

function onSwitch(event) {
  const pressed = event.target.closest?.('[data-choice] button');
  if (!pressed) return;
  const group = pressed.closest('[data-choice]');
  for (const one of group.querySelectorAll('button')) one.setAttribute('aria-pressed', String(one === pressed));
  if (group.dataset.choice === 'theme') {
    if (pressed.value === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = pressed.value;
    redrawAll();
  } else {
    clearCursor();
    draw(pressed.closest('figure.chart'));
  }
}

function redrawAll() {
  state.isStale = true;
  redrawSoon();
}

// Tables.

function makeSortable(table) {
  for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
    const text = head.textContent;
    head.replaceChildren(button(text, () => sortBy(table, column, head)));
  }
}

function keyOf(cell) {
  const text = cell?.dataset.sort ?? cell?.textContent ?? '';
  const number = Number(text.replaceAll(',', ''));
  return text.trim() !== '' && Number.isFinite(number) ? number : text;
}

function compareKeys(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  if (typeof a === 'number') return -1;
  if (typeof b === 'number') return 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

function sortBy(table, column, head) {
  const isUp = head.getAttribute('aria-sort') !== 'ascending';
  for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', isUp ? 'ascending' : 'descending');
  const rows = [...table.tBodies[0].rows].map((row) => [keyOf(row.cells[column]), row]);
  rows.sort((a, b) => (isUp ? 1 : -1) * compareKeys(a[0], b[0]));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

// Copies and downloads.

async function copyText(text, node) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const range = document.createRange();
    range.selectNodeContents(node);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    // Without the permission for the clipboard, what is selected can be copied by hand.
    document.execCommand?.('copy');
  }
  document.getElementById('status').textContent = 'copied';
}

function addTools() {
  for (const table of document.querySelectorAll('table.sortable')) makeSortable(table);
  for (const node of document.querySelectorAll('[data-copy]')) {
    node.after(button('Copy', () => copyText(node.textContent, node), { class: 'copy' }));
  }
  for (const figure of figures()) {
    const spec = state.columns[figure.dataset.chart];
    if (!spec) continue;
    const name = `${state.views[0].run ?? 'plimsoll'}-${figure.id.replace('chart-', '')}.csv`;
    figure.querySelector('.tools').append(button('CSV', () => download(name, 'text/csv', csvOf(figure, spec)), { 'aria-label': `Download ${titleOf(figure)} as CSV` }));
  }
  const data = document.getElementById('download');
  data?.append(button('Download the data as JSON', () => {
    const whole = state.views.length > 1 ? state.views : state.views[0];
    download(`${state.views[0].run ?? 'plimsoll'}.view.json`, 'application/json', JSON.stringify(whole));
  }));
}

const titleOf = (figure) => figure.querySelector('h3').textContent;

function csvOf(figure, spec) {
  const tables = state.views.map((view) => rowsOf(view, spec));
  if (tables.length === 1) return csv(tables[0]);
  const columns = [{ heading: 'run', unit: '' }, ...tables[0].columns];
  return csv({ columns, rows: tables.flatMap((table, index) => table.rows.map((row) => [letterOf(index), ...row])) });
}

function addListeners() {
  document.addEventListener('click', onSwitch);
  document.addEventListener('pointermove', onPointer);
  document.addEventListener('keydown', onKey);
  document.addEventListener('pointerdown', (event) => {
    if (!event.target.closest?.('.drawing')) clearCursor();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
  watchWidth();
  watchPrinting();
}

async function start() {
  state.columns = (await embedded('columns')) ?? {};
  const found = await embedded('view');
  if (found) {
    state.views = Array.isArray(found) ? found : [found];
    document.documentElement.dataset.script = 'on';
    addTools();
    drawAll();
    addListeners();
    document.documentElement.dataset.drawn = 'yes';
  } else {
    await startLive();
  }
}
