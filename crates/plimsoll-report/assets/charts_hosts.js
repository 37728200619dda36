'use strict';
// What the hosts did: the five graphs of a load test and the CPUs, and memory against held connections.

/** The panels of a host, in their order: quantities with the lines in each. */
const HOST_PANELS = [
  { heading: 'TCP connections established', unit: 'count', lines: [['established', 'established']], limit: 'established' },
  { heading: 'Packets', unit: '/s', lines: [['in', 'packets_in'], ['out', 'packets_out']], limit: 'packets' },
  { heading: 'Bytes', unit: 'B/s', lines: [['in', 'bytes_in'], ['out', 'bytes_out']], limit: 'bytes' },
  { heading: 'Memory', unit: 'B', lines: [['used', 'memory_used'], ['available', 'memory_available']], limit: 'memory' },
  { heading: 'Network, share of the link', unit: 'share', lines: [['in', 'link_in'], ['out', 'link_out']], full: 1 },
  { heading: 'CPU', unit: 'share', lines: [['busiest core', 'cpu_busiest'], ['all cores', 'cpu'], ['softirq', 'softirq'], ['steal', 'steal']], full: 1 },
  { heading: 'CPU speed, share of the median', unit: 'share', lines: [['speed', 'speed']], full: 1 },
  { heading: 'Clock frequency', unit: 'Hz', lines: [['mean of the CPUs', 'cpu_hertz']] },
];

const HOST_STYLES = [
  { stroke: 'var(--series-a)', strokeWidth: 2 },
  { stroke: 'var(--series-b)', strokeWidth: 1.5, strokeDasharray: '6 4' },
  { stroke: 'var(--series-c)', strokeWidth: 1.5, strokeDasharray: '2 2' },
  { stroke: 'var(--series-d)', strokeWidth: 1 },
];

const isSeen = (values) => (values ?? []).some(isNumber);

function hostPanel(view, host, spec, { width, narrow, height, most }) {
  const data = view.hosts[host];
  const lines = spec.lines.filter(([, path]) => isSeen(data[path])).map(([name, path], index) => ({ name, values: data[path], style: HOST_STYLES[index] }));
  if (!lines.length) return null;
  const x = sharedTime(view, width, true);
  const scale = unitScale(spec.unit, most);
  const limits = (data.limits ?? []).filter((limit) => limit.panel === spec.limit && isNumber(limit.max));
  const near = limits.filter((limit) => limit.max <= most * 3);
  const top = spec.full && most > 0.5 * spec.full ? spec.full * 1.12 : Math.max(most, ...near.map((limit) => limit.max)) * 1.12;
  const plot = width - TIME_MARGIN - 14;
  const gap = 3.5;
  const scaled = (values) => reduced(data.t, values.map((value) => (isNumber(value) ? value / scale.divisor : null)), x.domain, plot, { gap });
  const drawn = panel({
    width, height, narrow: true, x,
    y: { domain: [0, (top || 1) / scale.divisor], title: scale.title, format: scale.format },
    margin: { left: TIME_MARGIN, right: 14, top: 24 },
    marks: [
      trialShadesBare(view),
      ...lines.flatMap(({ values, style }) => seriesMarks(scaled(values), style)),
      ...near.map((limit) => limitLine(limit.max / scale.divisor, `${limit.name} ${shown(limit.max, spec.unit)}`)),
      spec.full && top >= spec.full ? limitLine(spec.full / scale.divisor, spec.unit === 'share' ? '100 %' : '') : null,
      cutOff(view),
    ],
  });
  const points = data.t.map((time, index) => ({
    x: drawn.toX(time), y: isNumber(lines[0].values[index]) ? drawn.toY(lines[0].values[index] / scale.divisor) : null,
    entries: [['time', shown(time, 's')], ...lines.map(({ name, values }) => [name, shown(values[index], spec.unit)])],
  }));
  const far = limits.filter((limit) => !near.includes(limit)).map((limit) => `${limit.name} ${shown(limit.max, spec.unit)} is above this graph`);
  return { ...drawn, heading: spec.heading, points, isTime: true, note: [namesOf(lines), ...far].filter(Boolean).join('; ') || undefined };
}

/** What each line is, where there are several. */
function namesOf(lines) {
  const dashes = ['solid', 'dashed', 'dotted', 'thin'];
  return lines.length > 1 ? lines.map(({ name }, index) => `${name} ${dashes[index]}`).join(', ') : '';
}

function unitScale(unit, most) {
  if (unit === 'B' || unit === 'B/s') {
    const { divisor, unit: prefix } = byteScale(most);
    return { divisor, title: unit === 'B/s' ? `${prefix}/s` : prefix, format: trimmed };
  }
  if (unit === 'Hz') return { divisor: 1e9, title: 'GHz', format: trimmed };
  if (unit === 'share') return { divisor: 0.01, title: '%', format: trimmed };
  return { divisor: 1, title: unit === '/s' ? 'per second' : 'number', format: short };
}

/** The largest value of a quantity, over the hosts whose values are within a factor of 20: these have one scale. */
function mostOf(view, spec) {
  const each = Object.entries(view.hosts).map(([host, data]) => [host, d3.max(spec.lines.flatMap(([, path]) => data[path] ?? [])) ?? 0]);
  const most = d3.max(each, ([, value]) => value) || 1;
  return Object.fromEntries(each.map(([host, value]) => [host, value * 20 >= most ? most : value || 1]));
}

CHARTS.host = ({ view, width, narrow, host }) => {
  const data = view.hosts?.[host];
  if (!data?.t?.length) return null;
  const each = panelWidth(width);
  const panels = HOST_PANELS.map((spec) => hostPanel(view, host, spec, { width: each, narrow, height: 180, most: mostOf(view, spec)[host] }));
  panels.push(coresPanel(view, data, each), troublePanel(view, data, each));
  const seen = panels.filter(Boolean);
  return seen.length ? { panels: seen, legend: [] } : null;
};

/** CPU of each core, a row each, darker where it was busier. */
function coresPanel(view, data, width) {
  const cores = Object.entries(data.cores ?? {}).filter(([, values]) => isSeen(values));
  if (cores.length < 2) return null;
  const x = sharedTime(view, width, true);
  const rowHeight = Math.max(3, Math.min(14, 140 / cores.length));
  const shades = d3.range(HEAT_STEPS).map((index) => `var(--heat-${index + 1})`);
  const top = 24;
  const cells = custom((scales, frame) => cores.map(([, values], row) => values.map((value, index) => {
    if (!isNumber(value)) return null;
    const right = scales.x(data.t[index]);
    const before = index > 0 && data.t[index] - data.t[index - 1] < 3.5 ? data.t[index - 1] : data.t[index] - 1;
    const left = Math.max(frame.left, scales.x(before));
    return element('rect', {
      x: left, y: frame.top + row * rowHeight, width: Math.max(1, right - left), height: rowHeight - (rowHeight > 6 ? 1 : 0),
      fill: shades[Math.min(HEAT_STEPS - 1, Math.floor(value * HEAT_STEPS))],
    });
  })));
  const drawn = panel({
    width, height: top + cores.length * rowHeight + 44, narrow: true, x,
    y: { domain: [cores.length, 0], title: 'core', ticks: cores.length <= 12 && rowHeight >= 13 ? d3.range(cores.length).map((row) => row + 0.5) : [], format: (at) => cores[Math.floor(at)]?.[0] ?? '' },
    margin: { left: TIME_MARGIN, right: 14, top },
    marks: [cells],
  });
  const points = data.t.map((time, index) => ({
    x: drawn.toX(time), y: null,
    entries: [['time', shown(time, 's')], ...cores.slice(0, 16).map(([name, values]) => [`core ${name}`, shown(values[index], 'share')])],
  }));
  return { ...drawn, heading: 'CPU of each core', points, isTime: true, note: 'From light (idle) to dark (busy); reversed on a dark page.' };
}

/** Counters of trouble, only those that moved. */
function troublePanel(view, data, width) {
  const moved = Object.entries(data.trouble ?? {}).filter(([, values]) => values.some((value) => value > 0));
  if (!moved.length) return null;
  const x = sharedTime(view, width, true);
  const rowHeight = 30;
  const rows = custom((scales, frame) => moved.map(([name, values], row) => {
    const y = frame.top + row * rowHeight;
    return [
      element('text', { x: frame.left, y: y + 12, 'text-anchor': 'start', fill: INK }, `${name}: ${grouped(d3.sum(values))}`),
      values.map((value, index) => (value > 0
        ? element('line', { x1: scales.x(data.t[index]), x2: scales.x(data.t[index]), y1: y + 17, y2: y + 27, stroke: 'var(--bad)', 'stroke-width': 1.5 })
        : null)),
    ];
  }));
  const drawn = panel({
    width, height: moved.length * rowHeight + 52, narrow: true, x,
    y: { domain: [0, 1], ticks: [], title: '' }, margin: { left: TIME_MARGIN, right: 14, top: 8 }, marks: [rows],
  });
  const points = data.t.map((time, index) => ({
    x: drawn.toX(time), y: null, entries: [['time', shown(time, 's')], ...moved.map(([name, values]) => [name, shown(values[index], 'count')])],
  }));
  return { ...drawn, heading: 'Counters of trouble that moved', points, isTime: true };
}

// Memory against connections.

const MEMORY_LINES = [
  ['machine', 'machine_bytes_per_connection', { stroke: INK, strokeWidth: 2.5 }],
  ['kernel', 'kernel_bytes_per_connection', { stroke: 'var(--series-c)', strokeWidth: 1.5 }],
  ['client', 'user_bytes_per_connection', { stroke: 'var(--series-a)', strokeWidth: 1.5, strokeDasharray: '6 4' }],
  ['SUT', 'sut_bytes_per_connection', { stroke: 'var(--series-b)', strokeWidth: 1.5, strokeDasharray: '2 2' }],
];

const CYCLE_LINES = [
  ['server', 'processes', { stroke: 'var(--series-b)', strokeWidth: 2 }],
  ['pools allocated', 'pools-allocated', { stroke: 'var(--series-c)', strokeWidth: 1.5 }],
  ['pools in use', 'pools-used', { stroke: 'var(--series-a)', strokeWidth: 1.5, strokeDasharray: '2 2' }],
];

CHARTS.cycles = ({ view, width, narrow, height }) => {
  const cycles = view.summary?.hold?.cycles;
  const readings = cycles?.readings ?? [];
  const lines = CYCLE_LINES.map(([name, path, style]) => ({
    name, path, style, points: readings.filter((one) => isNumber(one[path])).map((one) => [one.cycle, one[path]]),
  })).filter(({ points }) => points.length > 1);
  if (!lines.length) return null;
  const most = d3.max(lines.flatMap(({ points }) => points.map((point) => point[1])));
  const { divisor, unit } = byteScale(most);
  const growth = cycles.growth_bytes_per_cycle;
  const settled = readings.filter((one) => one.cycle >= cycles.settled_from && isNumber(one.processes));
  const middle = d3.median(settled, (one) => one.processes - (growth?.mid ?? 0) * one.cycle);
  const fitted = growth ? settled.map((one) => [one.cycle, (middle + growth.mid * one.cycle) / divisor]) : [];
  const drawn = panel({
    width, height: height(280, 240), narrow,
    x: { domain: [0.5, readings.length + 0.5], title: 'cycle', format: short },
    y: { domain: [0, (most / divisor) * 1.15], title: `after the drain, ${unit}`, format: trimmed },
    margin: { right: narrow ? 16 : 24, top: 30 },
    marks: [
      fitted.length > 1 ? line(fitted, { stroke: INK, strokeWidth: 1, strokeDasharray: '5 4' }) : null,
      ...lines.map(({ points, style }) => line(points.map(([x, y]) => [x, y / divisor]), style)),
      ...lines.map(({ points, style }) => Plot.dot(points.map(([x, y]) => [x, y / divisor]), { x: '0', y: '1', r: 3, fill: style.stroke })),
    ],
  });
  const points = readings.map((one, row) => ({
    x: drawn.toX(one.cycle), y: null, row,
    entries: [['cycle', String(one.cycle)], ...lines.map(({ name, path }) => [name, shown(one[path] ?? 0, 'B')])],
  }));
  return {
    panels: [{ ...drawn, points }],
    legend: lines.map(({ name, style }) => ({ text: name, sample: lineSample(style.stroke, { width: style.strokeWidth, dash: style.strokeDasharray }) })),
  };
};

CHARTS.memory = ({ view, width, narrow, height }) => {
  const hold = view.summary?.hold ?? view.hold;
  const levels = (hold?.plateaus ?? []).filter((level) => level.held > 0);
  const lines = MEMORY_LINES.map(([name, path, style]) => ({
    name, path, style,
    points: [[0, 0], ...levels.filter((level) => isNumber(level[path])).map((level) => [level.held, level.held * level[path]])],
  })).filter(({ points }) => points.length > 1);
  if (!lines.length) return null;
  const projection = (hold.projections ?? []).find((one) => one.resource === 'memory' && one.ends_at);
  const heldMost = d3.max(levels, (level) => level.held);
  const isNear = projection && projection.ends_at <= heldMost * 12;
  const bytesMost = d3.max(lines.flatMap(({ points }) => points.map((point) => point[1])));
  const limitBytes = projection?.limit;
  const xMost = isNear ? projection.ends_at * 1.08 : heldMost * 1.12;
  const yMost = isNear && limitBytes ? Math.max(limitBytes, bytesMost) * 1.1 : bytesMost * 1.2;
  const { divisor, unit } = byteScale(yMost);
  const last = lines.map(({ name, path, points }) => ({ name, at: points.at(-1), each: levels.findLast((level) => isNumber(level[path]))[path] }));
  // From the lowest line up: where there is no room, the label of a higher line goes higher.
  last.sort((a, b) => a.at[1] - b.at[1]);
  const labels = custom((scales) => last.map(({ name, at: [x, y], each }, order) => label(
    `${name} ${shown(Math.round(each), 'B')} each`, scales.x(x) + 6, scales.y(y / divisor) - 4, { priority: 3 + order / 10, weight: 600, gives: 'up' },
  )));
  const projected = isNear ? custom((scales, frame) => {
    const machine = lines.find(({ name }) => name === 'machine') ?? lines[0];
    const [x, y] = machine.points.at(-1);
    const end = [scales.x(projection.ends_at), scales.y(Math.min(limitBytes ?? y, yMost) / divisor)];
    const early = projection.ends_at_min ? scales.x(projection.ends_at_min) : null;
    const from = [scales.x(x), scales.y(y / divisor)];
    return [
      early !== null ? element('path', { d: `M${from}L${early},${end[1]}L${end}Z`, fill: 'var(--grid)', 'fill-opacity': 0.7 }) : null,
      element('line', { x1: from[0], y1: from[1], x2: end[0], y2: end[1], stroke: INK, 'stroke-width': 1, 'stroke-dasharray': '5 4', class: 'projection' }),
      element('circle', { cx: end[0], cy: end[1], r: 4, fill: 'var(--background)', stroke: INK, 'stroke-width': 1.5 }),
      label(
        `${short(projection.ends_at)}, ${projection.confidence}, extrapolated ×${trimmed(Number((projection.ends_at / heldMost).toPrecision(2)))}`,
        Math.min(end[0], frame.right - 4), end[1] + 18, { anchor: 'end', priority: 2, weight: 600 },
      ),
    ];
  }) : null;
  const drawn = panel({
    width, height: height(340, 280), narrow,
    x: { domain: [0, xMost], title: 'connections held', format: short },
    y: { domain: [0, yMost / divisor], title: `memory above the baseline, ${unit}`, format: trimmed },
    margin: { right: narrow ? 16 : 24, top: 30 },
    marks: [
      ...lines.map(({ points, style }) => line(points.map(([x, y]) => [x, y / divisor]), style)),
      ...lines.map(({ points, style }) => Plot.dot(points.slice(1).map(([x, y]) => [x, y / divisor]), { x: '0', y: '1', r: 3, fill: style.stroke })),
      isNear && limitBytes ? limitLine(limitBytes / divisor, `available less the reserve ${shown(limitBytes, 'B')}`) : null,
      projected, labels,
    ],
  });
  const points = levels.map((level, row) => ({
    x: drawn.toX(level.held), y: null, row,
    entries: [['held', grouped(level.held)], ...lines.map(({ name, path }) => [name, `${shown(Math.round(level[path] ?? 0), 'B')} each`])],
  }));
  const panels = [{ ...drawn, points }];
  const bars = projectionBars(hold, heldMost, width, narrow);
  if (bars) panels.push(bars);
  return {
    panels, stacked: true,
    legend: lines.map(({ name, style }) => ({ text: name, sample: lineSample(style.stroke, { width: style.strokeWidth, dash: style.strokeDasharray }) })),
  };
};

/** Where each resource would run out: the first one is the limit. */
function projectionBars(hold, heldMost, width, narrow) {
  const rows = (hold.projections ?? []).filter((one) => one.ends_at > 0).sort((a, b) => a.ends_at - b.ends_at).slice(0, 12);
  if (!rows.length) return null;
  const rowHeight = 34;
  const domain = logDomain([heldMost, ...rows.map((row) => row.ends_at), ...rows.map((row) => row.ends_at_min ?? row.ends_at)], 1);
  const top = 8;
  const marks = custom((scales, frame) => [
    element('line', { x1: scales.x(heldMost), x2: scales.x(heldMost), y1: frame.top, y2: frame.bottom, stroke: INK, 'stroke-dasharray': '2 3' }),
    rows.map((row, index) => {
      const y = frame.top + index * rowHeight;
      const text = `${row.resource}: ${shown(row.ends_at, 'count')}, ${row.confidence}`;
      const end = scales.x(row.ends_at);
      return [
        element('text', {
          x: frame.left, y: y + 12, 'text-anchor': 'start', fill: INK, 'font-weight': index === 0 ? 700 : 400,
          stroke: 'var(--background)', 'stroke-width': 4, 'paint-order': 'stroke',
        }, text),
        element('rect', { x: frame.left, y: y + 18, width: Math.max(1, end - frame.left), height: 8, fill: index === 0 ? INK : 'var(--axis)', class: 'bar' }),
        row.ends_at_min ? whiskerAcross(scales.x(row.ends_at_min), end, y + 22) : null,
      ];
    }),
  ]);
  const drawn = panel({
    width, height: rows.length * rowHeight + top + 44, narrow,
    x: { domain, log: true, title: 'connections at which it runs out (log)', format: short },
    y: { domain: [0, 1], ticks: [], title: '' }, margin: { left: 8, right: 20, top }, marks: [marks],
  });
  return { ...drawn, note: `Dotted line: the ${grouped(heldMost)} connections that were held. Whisker: the cautious end of the 95 % interval.` };
}

function whiskerAcross(from, to, y) {
  return element('path', { d: `M${from},${y}H${to}M${from},${y - 4}V${y + 4}`, stroke: 'var(--background)', 'stroke-width': 1.5, fill: 'none' });
}
