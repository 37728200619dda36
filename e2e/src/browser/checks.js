'use strict';
// Looks at a page of a report as it is shown. Each function returns a list: of what is wrong, or of what is there.

const UNITS = new Set([
  'ms', 's', 'min', 'h', '%', 'per second', 'requests/s', 'handshakes/s', 'connections/s', 'transactions/s', 'B', 'kB', 'MB', 'GB', 'TB', 'B/s',
  'kB/s', 'MB/s', 'GB/s',
]);

/** What is counted or without a dimension, so that its name is its unit. */
const COUNTED = new Set([
  'connections', 'connections held', 'connections that answered', 'connections at which it runs out', 'round', 'object size', 'core', 'number',
  'second of the sustain phase', 'share of operations that were faster', 'B against A', 'latency of B against A',
]);

/** Categories, of which there may be one. */
const CATEGORIES = new Set(['object size', 'round', 'core']);

const isVisible = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true });

/** The box of what is seen; letters do not reach the edges of their line. */
function boxOf(node, inset = 0) {
  const { left, right, top, bottom } = node.getBoundingClientRect();
  return { left, right, top: top + inset, bottom: bottom - inset };
}

const isEmpty = (box) => box.right - box.left <= 0 && box.bottom - box.top <= 0;

const figures = () => [...document.querySelectorAll('figure.chart')].filter(isVisible);

const drawings = (figure) => [...figure.querySelectorAll('svg[role="img"]')].filter(isVisible);

function nameOf(figure) {
  const { chart, host } = figure.dataset;
  return host ? `${chart} of ${host}` : chart;
}

function isUnit(title) {
  const bare = title.replace(/( \([^)]*\))+$/, '');
  return UNITS.has(bare) || COUNTED.has(bare) || UNITS.has(bare.split(', ').at(-1));
}

/** Each figure has axes with titles, units and ticks, and something within them; or a sentence that says why it has not. */
function charts() {
  const wrong = [];
  for (const figure of figures()) {
    const name = nameOf(figure);
    if (!figure.querySelector('figcaption h3')?.textContent.trim()) wrong.push(`${name}: no title`);
    const sentence = figure.querySelector('.nodata');
    const isExplained = Boolean(sentence && isVisible(sentence) && sentence.textContent.trim().endsWith('.'));
    const drawn = drawings(figure);
    if (isExplained === drawn.length > 0) wrong.push(`${name}: ${isExplained ? 'a drawing and a' : 'no drawing and no'} sentence that says why there is none`);
    for (const svg of drawn) {
      const about = svg.closest('div')?.querySelector('h4')?.textContent ?? '';
      wrong.push(...axes(svg).map((what) => `${name} ${about}: ${what}`));
    }
  }
  if (figures().length === 0) wrong.push('no figure');
  return wrong;
}

function axes(svg) {
  const wrong = [];
  const titles = {};
  for (const axis of ['x', 'y']) {
    const title = svg.querySelector(`.axis-title.${axis}`)?.textContent.trim() ?? '';
    titles[axis] = title;
    const ticks = tickLabels(svg, axis);
    if (title && !isUnit(title)) wrong.push(`the title of ${axis} ends in no unit: ${title}`);
    if (!title && (axis === 'x' || ticks.length > 0)) wrong.push(`no title of ${axis}`);
    if (title && ticks.length < 2 && !CATEGORIES.has(title)) wrong.push(`${ticks.length} ticks on ${axis}, ${title}`);
  }
  if (svg.getAttribute('aria-labelledby') === null && svg.getAttribute('aria-label') === null) wrong.push('no name');
  const box = boxOf(svg);
  const inside = (mark) => mark.right >= box.left && mark.left <= box.right && mark.bottom >= box.top && mark.top <= box.bottom;
  const isSeen = (shape) => isMark(svg, shape) && !isEmpty(boxOf(shape)) && inside(boxOf(shape));
  if (![...svg.querySelectorAll('path, circle, rect, image, line')].some(isSeen)) wrong.push('empty');
  return wrong;
}

const tickLabels = (svg, axis) => [...svg.querySelectorAll(`g[aria-label="${axis}-axis tick label"] text`)].filter((text) => text.textContent.trim());

/** Reports whether a shape stands for data: neither axes nor their grid do. */
function isMark(svg, shape) {
  return shape.parentNode !== svg && !shape.closest('[aria-label*="axis"], [aria-label="rule"], .cursor, defs, clipPath');
}

/** No two texts of a drawing touch, and none leaves it. */
function overlaps() {
  const wrong = [];
  for (const figure of figures()) {
    for (const svg of drawings(figure)) {
      const frame = boxOf(svg);
      const texts = [...svg.querySelectorAll('text')].filter((text) => text.textContent.trim() && isVisible(text));
      const boxes = texts.map((text) => ({ text: text.textContent, ...boxOf(text, 1) }));
      boxes.forEach((a, index) => {
        const out = Math.max(frame.left - a.left, a.right - frame.right, frame.top - a.top, a.bottom - frame.bottom);
        if (out > 1) wrong.push(`${nameOf(figure)}: "${a.text}" leaves the drawing by ${out.toFixed(1)} px`);
        for (const b of boxes.slice(index + 1)) {
          const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
          const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          if (width > 0 && height > 0 && width * height > 1) wrong.push(`${nameOf(figure)}: "${a.text}" and "${b.text}" overlap by ${width.toFixed(1)} x ${height.toFixed(1)} px`);
        }
      });
    }
  }
  return wrong;
}

/** The page is no wider than the screen, and names what is. */
function width() {
  const { clientWidth, scrollWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  const scrolls = (node) => node && node !== document.body && (getComputedStyle(node).overflowX !== 'visible' || scrolls(node.parentElement));
  const wide = [...document.body.querySelectorAll('*')].filter((node) => boxOf(node).right > clientWidth + 0.5 && !scrolls(node.parentElement));
  const shown = wide.slice(0, 5).map((node) => `${node.tagName.toLowerCase()}.${node.getAttribute('class') ?? ''} "${node.textContent.trim().slice(0, 40)}" to ${boxOf(node).right.toFixed(0)} px`);
  return [`${scrollWidth} px wide on a screen of ${clientWidth}: ${shown.join(', ')}`];
}

/** The narrowest that a figure may be, CSS pixels: a phone's screen without its margins. */
const COLUMN_MIN = 280;

/** Checks what another width of the screen may spoil, quickest first: it is looked at until the page has drawn again. */
function atWidth() {
  const wrong = [...width(), ...columns()];
  return wrong.length > 0 ? wrong : charts();
}

/** No figure is a narrow column, and each drawing that stands alone is as wide as its place. */
function columns() {
  const wrong = [];
  for (const figure of figures()) {
    const width = figure.clientWidth;
    if (width < COLUMN_MIN) wrong.push(`${nameOf(figure)}: a column of ${width} px`);
    for (const svg of drawings(figure)) {
      const place = svg.closest('.panel');
      const drawn = svg.clientWidth;
      if (place && Math.abs(drawn - place.clientWidth) > 1) wrong.push(`${nameOf(figure)}: a drawing of ${drawn} px in a place of ${place.clientWidth} px`);
      if (drawn < Math.min(COLUMN_MIN, width)) wrong.push(`${nameOf(figure)}: a drawing of ${drawn} px`);
    }
  }
  return wrong;
}

/** Pairs of a colour and what it stands on: [what, colour, background, least ratio]. */
function colours() {
  const found = new Map();
  const add = (what, colour, background, least) => found.set(`${what}|${colour}|${background}`, [what, colour, background, least]);
  const addShape = (shape, what, background) => {
    const { fill, stroke, strokeOpacity, opacity } = getComputedStyle(shape);
    // The halo of a line is there to be as the background.
    const colour = [stroke, fill].find((one) => one !== 'none' && one !== background);
    if (colour && strokeOpacity === '1' && opacity === '1') add(what, colour, background, 3);
  };
  for (const node of document.querySelectorAll('body, body *')) {
    if (!(node instanceof HTMLElement) || !hasText(node) || !isVisible(node) || isClipped(node)) continue;
    add(describe(node), getComputedStyle(node).color, backgroundOf(node), 4.5);
  }
  for (const figure of figures()) {
    for (const svg of drawings(figure)) {
      const background = backgroundOf(svg.parentElement);
      const name = nameOf(figure);
      for (const text of svg.querySelectorAll('text')) if (text.textContent.trim()) add(`${name}: text`, getComputedStyle(text).fill, background, 4.5);
      for (const shape of svg.querySelectorAll('.verdict-mark :is(path, circle), [aria-label="line"] path, .goal, .limit, .safe')) {
        addShape(shape, `${name}: ${shape.closest('[class]').getAttribute('class')}`, background);
      }
    }
    // Rectangles are areas, of which the light ones may be light.
    for (const shape of figure.querySelectorAll('.legend svg :is(path, circle, line)')) {
      if (isVisible(shape)) addShape(shape, `${nameOf(figure)}: legend, ${shape.closest('span').textContent}`, backgroundOf(shape.closest('span')));
    }
  }
  return [...found.values()];
}

const hasText = (node) => [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());

/** Whether it is there for screen readers only. */
const isClipped = (node) => node.getBoundingClientRect().width <= 1 || Boolean(node.closest('.visually-hidden, .skip'));

const describe = (node) => `${node.tagName.toLowerCase()}${node.getAttribute('class') ? `.${node.getAttribute('class')}` : ''}`;

function backgroundOf(node) {
  for (let at = node; at; at = at.parentElement) {
    const { backgroundColor } = getComputedStyle(at);
    if (backgroundColor !== 'rgba(0, 0, 0, 0)') return backgroundColor;
  }
  return 'rgb(255, 255, 255)';
}

/** The numbers of the trials that a chart has marks of. */
function trialMarks(chart) {
  return [...document.querySelectorAll(`figure[data-chart="${chart}"] .verdict-mark`)].map((mark) => [Number(mark.dataset.trial), mark.getAttribute('class').split(' ')[1]]);
}

/** The centres of a chart's trial marks, and its ticks: [[number, x, y]], {x: [[text, px]], y: [[text, px]]}. */
function positions(chart) {
  const svg = drawings(document.querySelector(`figure[data-chart="${chart}"]`))[0];
  const middle = (node) => {
    const box = boxOf(node);
    return { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
  };
  const trials = [...svg.querySelectorAll('.verdict-mark')].map((mark) => [Number(mark.dataset.trial), middle(mark).x, middle(mark).y]);
  const ticks = (axis) => tickLabels(svg, axis).map((text) => [text.textContent, middle(text)[axis]]);
  return { trials, x: ticks('x'), y: ticks('y') };
}

/** The titles of all axes, each once. */
const axisTitles = () => [...new Set(figures().flatMap((figure) => drawings(figure)).flatMap((svg) => [...svg.querySelectorAll('.axis-title')]).map((title) => title.textContent.trim()))];

/** Each table, figures' own aside, with its number of rows. */
const tables = () => [...document.querySelectorAll('table')].filter((table) => !table.closest('figure')).map((table) => `${table.caption?.textContent.trim() ?? table.id}: ${table.tBodies[0].rows.length}`);

/** The cells of a table's body. */
const cells = (selector) => [...document.querySelectorAll(`${selector} tbody tr`)].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));

/** What has the focus: its tag, and the figure that it is in. */
function focused() {
  const node = document.activeElement;
  if (!node || node === document.body) return null;
  const figure = node.closest('figure.chart');
  const { outlineStyle, outlineWidth } = getComputedStyle(node);
  return {
    what: describe(node), figure: figure && node.matches('.drawing') ? nameOf(figure) : null,
    ring: outlineStyle === 'none' ? 0 : Number.parseFloat(outlineWidth),
  };
}
