'use strict';
// Draws the figures of a page, again whenever their width or theme changes; moves the cursor by pointer and keyboard.

/** Charts by name: `(box) => null | {panels, legend}`; null where there is nothing to draw. */
const CHARTS = {};

const state = { views: [], columns: {}, printing: false, drawn: new Map() };

const GAP_PX = 24;
/** What a figure is wide on A4, whatever the screen was. */
const PAPER_PX = 700;

/** How wide panels are that stand beside each other, of which none is narrower than `least`. */
function panelWidth(width, least = state.printing ? 320 : 400) {
  const count = Math.max(1, Math.floor((width + GAP_PX) / (least + GAP_PX)));
  return Math.floor((width - GAP_PX * (count - 1)) / count);
}

function draw(figure) {
  const place = figure.querySelector('.drawing');
  const width = state.printing ? PAPER_PX : place.parentNode.clientWidth;
  if (width < 120 || !state.views.length) return;
  const chart = CHARTS[figure.dataset.chart];
  const box = {
    views: state.views, view: state.views[0], width, narrow: width < 560, host: figure.dataset.host ?? null,
    choice: (name) => figure.querySelector(`[data-choice="${name}"] [aria-pressed="true"]`)?.value ?? null,
    height: (wide, narrow) => (width < 560 ? narrow : wide),
  };
  let result = null;
  try {
    result = chart(box);
  } catch (error) {
    // A defect in one chart must not take the others.
    console.error(`chart ${figure.dataset.chart}`, error);
  }
  const missing = figure.querySelector('.nodata');
  if (missing) missing.hidden = Boolean(result);
  for (const group of figure.querySelectorAll('[data-choice]')) group.hidden = !result;
  figure.querySelector('.tools').hidden = !result && !figure.querySelector('table tbody tr');
  place.hidden = !result;
  if (!result) {
    place.replaceChildren();
    state.drawn.delete(figure);
    return;
  }
  const isGrid = !result.stacked && (result.panels.length > 1 || result.panels[0].heading);
  const nodes = result.panels.map((drawn) => panelNode(figure, drawn, isGrid));
  const grid = document.createElement('div');
  grid.className = isGrid ? 'panels' : 'panel';
  if (isGrid) grid.style.gridTemplateColumns = `repeat(auto-fill, ${panelWidth(width)}px)`;
  grid.append(...nodes);
  place.replaceChildren(...(result.legend?.length ? [legend(result.legend)] : []), grid);
  for (const drawn of result.panels) if (drawn.svg) settle(drawn.svg);
  state.drawn.set(figure, { width, panels: result.panels, series: state.drawn.get(figure)?.series ?? 0 });
  // The cursor stays where it was.
  const { cursor } = state;
  if (cursor?.figure === figure) point(figure, cursor.panelIndex, cursor.index);
}

function panelNode(figure, drawn, isGrid) {
  const node = document.createElement('div');
  if (drawn.heading) {
    const heading = document.createElement('h4');
    heading.textContent = drawn.heading;
    node.append(heading);
  }
  if (drawn.svg) {
    const { svg } = drawn;
    svg.setAttribute('role', 'img');
    if (isGrid && drawn.heading) svg.setAttribute('aria-label', drawn.heading);
    else svg.setAttribute('aria-labelledby', `title-${figure.id}`);
    svg.setAttribute('aria-describedby', `about-${figure.id}`);
    svg.removeAttribute('aria-description');
    node.append(svg);
  }
  if (drawn.note) {
    const note = document.createElement('p');
    note.className = 'panel-note';
    note.textContent = drawn.note;
    node.append(note);
  }
  return node;
}

const figures = () => [...document.querySelectorAll('figure.chart')];

function drawAll() {
  for (const figure of figures()) draw(figure);
}

// The cursor.

/** Shows the point `index` of a panel: a line in every chart of the same time, and what the row of the table says. */
function point(figure, panelIndex, index, { announce = false } = {}) {
  const drawn = state.drawn.get(figure);
  const panelDrawn = drawn?.panels[panelIndex];
  const spot = panelDrawn?.points?.[index];
  if (!spot) {
    clearCursor();
    return;
  }
  wipeCursor();
  state.cursor = { figure, panelIndex, index };
  cursorLine(panelDrawn, spot.x, spot.y);
  if (panelDrawn.isTime) shareTime(figure, panelDrawn, spot.x);
  const entries = spot.entries ?? entriesOf(figure, spot.row);
  readout(figure, panelDrawn, spot, entries, drawn.series);
  if (announce) say(entries, drawn.series);
}

function entriesOf(figure, row) {
  const spec = state.columns[figure.dataset.chart];
  if (!spec) return [];
  const table = state.tables?.get(spec) ?? rowsOf(state.views[0], spec);
  state.tables ??= new Map();
  state.tables.set(spec, table);
  const values = table.rows[row] ?? [];
  return table.columns.map((column, index) => [column.heading, shown(values[index], column.unit)]).filter(([, text]) => text !== '');
}

function cursorLine(panelDrawn, x, y) {
  const { svg, frame } = panelDrawn;
  const group = element('g', { class: 'cursor', 'aria-hidden': 'true', 'pointer-events': 'none' });
  group.append(element('line', { x1: x, x2: x, y1: frame.top, y2: frame.bottom, stroke: INK, 'stroke-width': 1 }));
  if (isNumber(y)) group.append(element('circle', { cx: x, cy: y, r: 8, fill: 'none', stroke: INK, 'stroke-width': 1.5 }));
  svg.append(group);
}

function shareTime(figure, from, x) {
  const time = from.fromX(x);
  for (const [other, { panels }] of state.drawn) {
    for (const drawn of panels) {
      if (!drawn.isTime || drawn === from) continue;
      const at = drawn.toX(time);
      if (at >= drawn.frame.left - 0.5 && at <= drawn.frame.right + 0.5) cursorLine(drawn, at, null);
    }
  }
}

function wipeCursor() {
  for (const node of document.querySelectorAll('g.cursor, .readout')) node.remove();
}

function clearCursor() {
  wipeCursor();
  state.cursor = null;
  clearTimeout(toSay);
  document.getElementById('status').textContent = '';
}

function readout(figure, panelDrawn, spot, entries, current) {
  const place = figure.querySelector('.drawing');
  const note = document.createElement('div');
  note.className = 'readout';
  const list = document.createElement('dl');
  entries.forEach(([name, text], index) => {
    const term = document.createElement('dt');
    const value = document.createElement('dd');
    term.textContent = name;
    value.textContent = text;
    if (index > 0 && index === current) {
      term.className = 'is-current';
      value.className = 'is-current';
    }
    list.append(term, value);
  });
  note.append(list);
  place.append(note);
  const base = place.getBoundingClientRect();
  const svg = panelDrawn.svg.getBoundingClientRect();
  const x = svg.left - base.left + spot.x;
  const right = x + 14 + note.offsetWidth <= place.clientWidth;
  const left = right ? x + 14 : Math.max(0, x - 14 - note.offsetWidth);
  note.style.left = `${left}px`;
  note.style.top = `${Math.max(0, svg.top - base.top + panelDrawn.frame.top)}px`;
}

let saidAt = 0;
let toSay = null;

/** Reads a point to a screen reader, at most twice a second. */
function say(entries, current) {
  const [first, ...rest] = entries;
  const chosen = current > 0 && entries[current] ? [entries[current]] : rest.slice(0, 5);
  const text = [first, ...chosen].filter(Boolean).map((entry) => entry.join(' ')).join(', ');
  clearTimeout(toSay);
  toSay = setTimeout(() => {
    saidAt = performance.now();
    document.getElementById('status').textContent = text;
  }, Math.max(0, 500 - (performance.now() - saidAt)));
}

function nearest(panelDrawn, x, y) {
  let best = -1;
  let least = Infinity;
  panelDrawn.points.forEach((spot, index) => {
    const across = spot.x - x;
    const down = panelDrawn.isScatter ? (spot.y ?? y) - y : 0;
    const distance = across * across + down * down;
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}

function onPointer(event) {
  const figure = event.target.closest?.('figure.chart');
  const svg = event.target.closest?.('svg[role="img"]');
  if (!figure || !svg) return;
  const drawn = state.drawn.get(figure);
  const panelIndex = drawn?.panels.findIndex((one) => one.svg === svg) ?? -1;
  const panelDrawn = drawn?.panels[panelIndex];
  if (!panelDrawn?.points?.length) return;
  const box = svg.getBoundingClientRect();
  const index = nearest(panelDrawn, event.clientX - box.left, event.clientY - box.top);
  const now = state.cursor;
  if (now && now.figure === figure && now.panelIndex === panelIndex && now.index === index) return;
  point(figure, panelIndex, index);
}

const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

function onKey(event) {
  if (event.key === 'Escape') {
    clearCursor();
    return;
  }
  const place = event.target.closest?.('.drawing');
  const figure = place?.closest('figure.chart');
  const drawn = figure && state.drawn.get(figure);
  if (!drawn || event.ctrlKey || event.metaKey || event.altKey) return;
  const here = state.cursor?.figure === figure ? state.cursor : null;
  let panelIndex = here?.panelIndex ?? drawn.panels.findIndex((one) => one.points?.length);
  if (panelIndex < 0) return;
  const { points } = drawn.panels[panelIndex];
  if (event.key in STEPS) {
    const from = here ? here.index : STEPS[event.key] > 0 ? -1 : points.length;
    const to = Math.max(0, Math.min(points.length - 1, from + STEPS[event.key]));
    event.preventDefault();
    point(figure, panelIndex, to, { announce: true });
  } else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
    event.preventDefault();
    const move = event.key === 'ArrowDown' ? 1 : -1;
    // In a figure of several panels: to the next one; else to the next column of the table.
    const panels = drawn.panels.map((one, index) => (one.points?.length ? index : -1)).filter((index) => index >= 0);
    if (panels.length > 1) {
      panelIndex = panels[Math.max(0, Math.min(panels.length - 1, panels.indexOf(panelIndex) + (here ? move : 0)))];
    } else {
      const count = entriesOf(figure, points[0].row).length;
      drawn.series = Math.max(0, Math.min(count - 1, drawn.series + move));
    }
    const index = Math.min(here?.index ?? 0, drawn.panels[panelIndex].points.length - 1);
    point(figure, panelIndex, index, { announce: true });
  }
}

// Redrawing.

let waiting = null;

function redrawSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    for (const figure of figures()) {
      const width = figure.querySelector('.drawing').parentNode.clientWidth;
      if (state.drawn.get(figure)?.width !== width || state.isStale) draw(figure);
    }
    state.isStale = false;
  }, 150);
}

function watchWidth() {
  let width = document.body.clientWidth;
  new ResizeObserver(() => {
    if (state.printing || document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    redrawSoon();
  }).observe(document.body);
}

/** Paper is light, one column wide, and has everything open. */
function watchPrinting() {
  let closed = [];
  let theme = null;
  addEventListener('beforeprint', () => {
    state.printing = true;
    theme = document.documentElement.dataset.theme ?? null;
    document.documentElement.dataset.theme = 'light';
    closed = [...document.querySelectorAll('details:not([open])')].filter((node) => !node.closest('footer') && !node.matches('.data'));
    for (const node of closed) node.open = true;
    clearCursor();
    drawAll();
  });
  addEventListener('afterprint', () => {
    state.printing = false;
    if (theme === null) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    for (const node of closed) node.open = false;
    drawAll();
  });
}
