'use strict';
// What all charts share: axes, marks by the grammar, labels that give way to each other. Observable Plot draws; this file names the
// few of its marks that are used, and adds the ones that it lacks as functions.

const SVG = 'http://www.w3.org/2000/svg';
const FONT_PX = 12;
const INK = 'var(--text)';

/** An SVG element with attributes; those that are null are left out. */
function element(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

const ruler = document.createElement('canvas').getContext('2d');

function textWidth(text, weight = 400) {
  ruler.font = `${weight} ${FONT_PX}px system-ui, "Liberation Sans", sans-serif`;
  // Fonts differ a little from what the canvas takes.
  return ruler.measureText(text).width * 1.04 + 1;
}

/** 1-2-5 ticks of a logarithmic axis, as many as there is room for. */
function logTicks([low, high], most) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const digit of [1, 2, 5]) {
      const tick = Number(`${digit}e${power}`);
      if (tick >= low * 0.9999 && tick <= high * 1.0001) ticks.push(tick);
    }
  }
  const leading = (digits) => (tick) => digits.includes(Math.round(tick / 10 ** Math.floor(Math.log10(tick) + 1e-9)));
  for (const digits of [[1, 2, 5], [1]]) {
    const some = ticks.filter(leading(digits));
    if (some.length <= most && some.length >= 2) return some;
  }
  const decades = ticks.filter(leading([1]));
  if (decades.length < 2) {
    const linear = d3.ticks(low, high, Math.min(most, 5));
    return ticks.length >= 2 && ticks.length <= most ? ticks : linear;
  }
  return decades.filter((_, index) => index % Math.ceil(decades.length / most) === 0);
}

/** Ticks whose labels do not touch; `at` gives the pixel of a tick. */
function fittingTicks(candidates, format, length, isVertical) {
  for (const ticks of candidates) {
    if (ticks.length < 2) continue;
    const widest = isVertical ? FONT_PX * 1.5 : Math.max(...ticks.map((tick) => textWidth(format(tick)))) + 14;
    if (ticks.length * widest <= length * 1.05) return ticks;
  }
  return candidates.at(-1);
}

function ticksOf(axis, length, isVertical, most) {
  if (axis.ticks) return axis.ticks;
  const make = axis.log ? (n) => logTicks(axis.domain, n) : (n) => d3.ticks(...axis.domain, n).filter(axis.whole ? Number.isInteger : () => true);
  const counts = [];
  for (let n = Math.max(2, Math.min(most, 12)); n >= 2; n -= 1) counts.push(make(n));
  return fittingTicks(counts, axis.format, length, isVertical);
}

/**
 * Draws one panel. `x` and `y`: {domain, log, title, format, ticks}; `marks` is a list of Plot's marks and of functions.
 * Returns the SVG with its scales.
 */
function panel({ width, height, x, y, marks, margin = {}, narrow = width < 560 }) {
  const format = { x: x.format ?? short, y: y.format ?? short };
  const xAxis = { ...x, format: format.x };
  const yAxis = { ...y, format: format.y };
  const marginTop = margin.top ?? 26;
  const marginBottom = margin.bottom ?? 44;
  const marginRight = margin.right ?? 14;
  const yTicks = ticksOf(yAxis, height - marginTop - marginBottom, true, narrow ? 5 : 8);
  const widest = Math.max(0, ...yTicks.map((tick) => textWidth(format.y(tick))));
  const marginLeft = margin.left ?? Math.ceil(widest + 12);
  const plotWidth = width - marginLeft - marginRight;
  const xTicks = ticksOf(xAxis, plotWidth, false, narrow ? 4 : Math.max(3, Math.round(plotWidth / 80)));
  const options = (axis) => ({
    type: axis.type ?? (axis.log ? 'log' : 'linear'), domain: axis.domain, label: null, axis: null, clamp: false,
  });
  const svg = Plot.plot({
    width, height, marginTop, marginBottom, marginLeft, marginRight,
    style: { fontSize: `${FONT_PX}px`, background: 'transparent', color: INK, overflow: 'visible' },
    x: options(x), y: options(y),
    marks: [
      Plot.ruleY(yTicks, { y: (tick) => tick, stroke: 'var(--grid)' }),
      x.grid ? Plot.ruleX(xTicks, { x: (tick) => tick, stroke: 'var(--grid)' }) : null,
      ...marks,
      tickMarks(xTicks, format.x, yTicks, format.y),
      axisTitles(x.title, y.title),
    ],
  });
  for (const node of svg.querySelectorAll('g, path, line, circle, image, rect, text')) {
    if (node.parentNode === svg) node.setAttribute('aria-hidden', 'true');
  }
  const frame = { left: marginLeft, right: width - marginRight, top: marginTop, bottom: height - marginBottom };
  const pixels = (name) => {
    const scale = svg.scale(name);
    return (value) => scale.apply(value);
  };
  return { svg, frame, toX: pixels('x'), toY: pixels('y'), fromX: (px) => svg.scale('x').invert?.(px) };
}

/**
 * The ticks with their labels, and the lower edge of the frame. Plot's own axes leave out labels of a logarithmic scale as d3 sees fit;
 * here every tick that was chosen has one.
 */
function tickMarks(xTicks, xFormat, yTicks, yFormat) {
  return (index, scales, values, { width, height, marginLeft, marginRight, marginBottom }) => {
    const base = height - marginBottom + 0.5;
    const right = width - marginRight;
    const across = element('g', { 'aria-label': 'x-axis tick label', fill: 'var(--secondary)' });
    const ticks = element('g', { stroke: 'var(--axis)' }, element('line', { x1: marginLeft, x2: right, y1: base, y2: base }));
    for (const tick of xTicks) {
      const x = scales.x(tick);
      if (!(x >= marginLeft - 0.5 && x <= right + 0.5)) continue;
      ticks.append(element('line', { x1: x, x2: x, y1: base, y2: base + 4 }));
      // The outermost labels stay within the drawing.
      const half = textWidth(xFormat(tick)) / 2;
      const shift = Math.min(0, width - 1 - (x + half)) + Math.max(0, half - x);
      across.append(element('text', { x: x + shift, y: base + 19, class: 'tick' }, xFormat(tick)));
    }
    const up = element('g', { 'aria-label': 'y-axis tick label', fill: 'var(--secondary)', 'text-anchor': 'end' });
    for (const tick of yTicks) {
      up.append(element('text', { x: marginLeft - 6, y: scales.y(tick) + 4, class: 'tick' }, yFormat(tick)));
    }
    return element('g', {}, ticks, across, up);
  };
}

/** Titles with units: that of y above the axis, that of x below its ticks at the right end. */
function axisTitles(x, y) {
  return (index, scales, values, { width, height, marginRight }) => {
    const group = element('g', { fill: 'var(--secondary)' });
    if (y) group.append(element('text', { x: 0, y: 11, 'text-anchor': 'start', class: 'axis-title y' }, y));
    if (x) {
      group.append(element('text', { x: width - marginRight, y: height - 6, 'text-anchor': 'end', class: 'axis-title x' }, x));
    }
    return group;
  };
}

/** A mark made of what `draw(scales, frame)` returns. */
function custom(draw) {
  return (index, scales, values, dimensions) => {
    const frame = {
      left: dimensions.marginLeft, right: dimensions.width - dimensions.marginRight,
      top: dimensions.marginTop, bottom: dimensions.height - dimensions.marginBottom, width: dimensions.width,
    };
    const nodes = [draw(scales, frame)].flat(Infinity).filter(Boolean);
    return nodes.length ? element('g', {}, ...nodes) : null;
  };
}

// Verdicts, told apart by shape: a filled circle, a cross, a hollow dotted diamond.

function verdictShape(verdict, x, y, size = 9) {
  const r = size / 2;
  switch (verdict) {
    case 'good': return element('circle', { cx: x, cy: y, r, fill: 'var(--good)' });
    case 'bad': return element('path', {
      d: `M${x - r},${y - r}L${x + r},${y + r}M${x - r},${y + r}L${x + r},${y - r}`, stroke: 'var(--bad)', 'stroke-width': 2, fill: 'none',
    });
    default: return element('path', {
      d: `M${x},${y - r - 1}L${x + r + 1},${y}L${x},${y + r + 1}L${x - r - 1},${y}Z`,
      stroke: 'var(--invalid)', 'stroke-width': 1.5, 'stroke-dasharray': '1.5 1.5', fill: 'var(--background)',
    });
  }
}

/** A trial's mark: {verdict, x, y, ring, number}; confirmations are larger and have a ring. */
function verdictMark({ verdict, x, y, ring, number, off }) {
  const group = element('g', { class: `verdict-mark ${verdict}`, 'data-trial': number });
  if (off) {
    const r = 6;
    const tip = off === 'above' ? -r : r;
    group.append(element('path', {
      d: `M${x - r},${y - tip / 2}L${x},${y + tip}L${x + r},${y - tip / 2}Z`,
      fill: verdict === 'good' ? 'var(--good)' : 'none', 'stroke-width': 1.8,
      stroke: `var(--${verdict})`, 'stroke-dasharray': verdict === 'invalid' ? '1.5 1.5' : null,
    }));
    return group;
  }
  if (ring) group.append(element('circle', { cx: x, cy: y, r: 8.5, fill: 'none', stroke: INK, 'stroke-width': 1 }));
  group.append(verdictShape(verdict, x, y, ring ? 11 : verdict === 'bad' ? 10 : 9));
  return group;
}

/** A vertical whisker with end bars. */
function whisker(x, low, high, stroke = 'var(--axis)') {
  const d = `M${x},${low}V${high}M${x - 3},${low}H${x + 3}M${x - 3},${high}H${x + 3}`;
  return element('path', { d, stroke, fill: 'none', 'stroke-width': 1 });
}

/**
 * A text that gives way: `settle` moves it up or down (`gives`: one of them only), or takes it out where there is no room. Lower
 * priorities are placed first.
 */
function label(text, x, y, { anchor = 'start', priority = 5, weight = null, fill = INK, gives = null } = {}) {
  return element('text', {
    class: 'label', x, y, 'text-anchor': anchor, 'font-weight': weight, fill, stroke: 'var(--background)', 'stroke-width': 3,
    'paint-order': 'stroke', 'stroke-linejoin': 'round', 'data-priority': priority, 'data-gives': gives,
  }, text);
}

const SHIFTS = [0, -15, 15, -30, 30, -45, 45, -60, 60];

/** Of labels that stand below each other in the order of their lines: `gives` is `up` or `down`. */
const shiftsOf = (gives) => SHIFTS.filter((shift) => !gives || shift === 0 || (shift > 0) === (gives === 'down'));

/** Places the labels of a drawing that is in the document, so that no two texts touch. */
function settle(svg) {
  const width = Number(svg.getAttribute('width'));
  const height = Number(svg.getAttribute('height'));
  const labels = [...svg.querySelectorAll('text.label')];
  labels.sort((a, b) => a.dataset.priority - b.dataset.priority);
  const boxOf = (node) => {
    const box = node.getBBox();
    const matrix = svg.getScreenCTM().inverse().multiply(node.getScreenCTM());
    return { x: box.x + matrix.e, y: box.y + matrix.f, width: box.width, height: box.height };
  };
  const texts = [...svg.querySelectorAll('text:not(.label)')].filter((node) => node.textContent);
  const taken = texts.map(boxOf);
  const touches = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  for (const node of labels) {
    const box = boxOf(node);
    const over = Math.min(0, width - 1 - (box.x + box.width)) + Math.max(0, 1 - box.x);
    box.x += over;
    const shift = shiftsOf(node.dataset.gives).find((dy) => {
      const moved = { ...box, y: box.y + dy };
      return moved.y >= 0 && moved.y + moved.height <= height && !taken.some((other) => touches(moved, other));
    });
    if (shift === undefined || box.width > width - 2) {
      node.remove();
      continue;
    }
    if (over) node.setAttribute('x', Number(node.getAttribute('x')) + over);
    if (shift) node.setAttribute('y', Number(node.getAttribute('y')) + shift);
    taken.push({ ...box, y: box.y + shift });
  }
}

/** Diagonal lines over a rectangle: what may not be entered, or what is missing. */
function hatch(x, y, width, height, stroke = 'var(--axis)') {
  const lines = [];
  const step = 7;
  for (let at = -height; at < width; at += step) {
    const from = Math.max(at, 0);
    const to = Math.min(at + height, width);
    if (to > from) lines.push(`M${x + from},${y + height - (from - at)}L${x + to},${y + height - (to - at)}`);
  }
  return lines.length ? element('path', { d: lines.join(''), stroke, 'stroke-width': 0.7, fill: 'none' }) : null;
}

/** A goal: a long-dashed line with its words at the end. */
function goalLine(value, text) {
  return custom((scales, frame) => {
    const y = scales.y(value);
    if (!(y >= frame.top - 1 && y <= frame.bottom + 1)) return [];
    return [
      element('line', { x1: frame.left, x2: frame.right, y1: y, y2: y, stroke: INK, 'stroke-width': 1.5, 'stroke-dasharray': '12 5', class: 'goal' }),
      label(text, frame.right - 2, y - 5, { anchor: 'end', priority: 2, weight: 600 }),
    ];
  });
}

/** A limit of a resource: a solid line, hatched above. */
function limitLine(value, text) {
  return custom((scales, frame) => {
    const y = scales.y(value);
    if (!(y >= frame.top - 1 && y <= frame.bottom + 1)) return [];
    return [
      hatch(frame.left, Math.max(frame.top, y - 7), frame.right - frame.left, Math.min(7, Math.max(0, y - frame.top))),
      element('line', { x1: frame.left, x2: frame.right, y1: y, y2: y, stroke: INK, 'stroke-width': 1, class: 'limit' }),
      label(text, frame.right - 2, y + 14, { anchor: 'end', priority: 2 }),
    ];
  });
}

/** A line of points [x, y]; null in y is a gap. */
function line(points, options = {}) {
  return Plot.line(points, { x: '0', y: '1', stroke: INK, strokeWidth: 2, strokeLinejoin: 'round', curve: 'linear', ...options });
}

/** A line over time as a step. */
function step(points, options = {}) {
  return line(points, { curve: 'step-after', ...options });
}

/**
 * At most two points in each column of pixels, the least and the most of it: what a line of all of them would show. Never a mean.
 * Where x jumps by more than `gap`, or `parts` names another part, the line is broken. A value is that of the time `lead` before x.
 */
function reduced(xs, ys, [low, high], pixels, { gap = Infinity, lead = 0, parts = null } = {}) {
  const points = [];
  const perPixel = (high - low) / Math.max(1, pixels);
  const isThin = xs.length <= 2 * pixels;
  let column = null;
  const flush = () => {
    if (!column) return;
    const [first, second] = column.least[0] <= column.most[0] ? [column.least, column.most] : [column.most, column.least];
    points.push(first);
    if (second !== first) points.push(second);
    column = null;
  };
  let before = null;
  xs.forEach((x, index) => {
    const y = ys[index];
    const isOther = parts !== null && index > 0 && parts[index] !== parts[index - 1];
    if (before !== null && (x - before > gap || isOther)) {
      flush();
      points.push([(x + before) / 2, null]);
    }
    if (lead && isNumber(y) && !column && !isNumber(points.at(-1)?.[1])) points.push([x - lead, y]);
    before = x;
    if (!isNumber(y)) {
      flush();
      points.push([x, null]);
      return;
    }
    if (isThin) {
      points.push([x, y]);
      return;
    }
    const pixel = Math.floor((x - low) / perPixel);
    if (column && column.pixel !== pixel) flush();
    if (!column) column = { pixel, least: [x, y], most: [x, y] };
    if (y < column.least[1]) column.least = [x, y];
    if (y > column.most[1]) column.most = [x, y];
  });
  flush();
  return points;
}

/** Points that stand alone: a line through one of them would not be seen. */
function lonely(points) {
  const has = (index) => points[index] !== undefined && points[index][1] !== null;
  return points.filter((point, index) => has(index) && !has(index - 1) && !has(index + 1));
}

/** A line with dots where it has only single points. */
function seriesMarks(points, options = {}) {
  const alone = lonely(points);
  return [
    line(points, options),
    alone.length ? Plot.dot(alone, { x: '0', y: '1', r: 2, fill: options.stroke ?? INK }) : null,
  ];
}

/** A legend in HTML, in the order of the lines: [{text, draw}] where draw gives the SVG of 28 by 12 pixels. */
function legend(entries) {
  const list = document.createElement('div');
  list.className = 'legend';
  list.setAttribute('aria-hidden', 'true');
  for (const { text, sample } of entries) {
    const item = document.createElement('span');
    if (sample) {
      const svg = element('svg', { width: 28, height: 12, viewBox: '0 0 28 12' });
      svg.append(...[sample].flat());
      item.append(svg);
    }
    item.append(text);
    list.append(item);
  }
  return list;
}

function lineSample(stroke, { width = 2, dash = null } = {}) {
  return element('line', { x1: 1, x2: 27, y1: 6, y2: 6, stroke, 'stroke-width': width, 'stroke-dasharray': dash });
}

/** The colour of a role as it is now, for what is painted on a canvas. */
function resolved(name) {
  const probe = document.createElement('span');
  probe.hidden = false;
  document.body.append(probe);
  probe.style.color = `var(${name})`;
  const text = getComputedStyle(probe).color;
  probe.remove();
  return d3.rgb(text);
}

/** A domain that is not empty, from 0 where `zero`. */
function niceDomain(values, { zero = true, log = false, decades = 0 } = {}) {
  const found = values.filter((value) => isNumber(value) && (!log || value > 0));
  if (!found.length) return log ? [1, 10] : [0, 1];
  let [low, high] = d3.extent(found);
  if (log) return logDomain(found, decades);
  if (zero) low = Math.min(0, low);
  if (high === low) high = low + (Math.abs(low) || 1);
  return [low, low + (high - low) * 1.08];
}

/** From 1-2-5 to 1-2-5, over at least so many decades. */
function logDomain(values, decades = 0) {
  const [least, most] = d3.extent(values);
  const nice = (value, up) => {
    const power = Math.floor(Math.log10(value) + 1e-9);
    const digits = [1, 2, 5, 10];
    const digit = value / 10 ** power;
    const found = up ? digits.find((one) => one >= digit * 0.9999) : digits.findLast((one) => one <= digit * 1.0001);
    return (found ?? (up ? 10 : 1)) * 10 ** power;
  };
  let low = nice(least, false);
  let high = nice(most, true);
  while (Math.log10(high / low) < Math.max(decades, 0.25)) {
    high = nice(high * 1.5, true);
    if (Math.log10(high / low) < Math.max(decades, 0.25)) low = nice(low / 1.5, false);
  }
  return [low, high];
}
