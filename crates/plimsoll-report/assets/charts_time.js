'use strict';
// The charts over time: rate, latency as a heat map, errors, connections. All have the same axis and one cursor.

/** Seconds from the start; minutes where there are many. */
function timeAxis([start, end]) {
  const isLong = end - start > 900;
  const unit = isLong ? 60 : 1;
  return {
    domain: [start, Math.max(end, start + 1)],
    title: isLong ? 'time since the start, min' : 'time since the start, s',
    format: (value) => trimmed(value / unit),
    unit,
  };
}

/** The axis that all charts over time of this document share. */
function sharedTime(view, width, narrow) {
  const ends = [];
  const { t } = view.seconds ?? {};
  if (t?.length) ends.push(t[0] - 1, t.at(-1));
  for (const host of Object.values(view.hosts ?? {})) if (host.t?.length) ends.push(host.t[0], host.t.at(-1));
  for (const trial of view.trials ?? []) if (isNumber(trial.start_s)) ends.push(trial.start_s, trial.start_s + trial.seconds);
  if (!ends.length) return null;
  const axis = timeAxis([Math.max(0, d3.min(ends)), d3.max(ends)]);
  const plot = width - 70;
  const most = narrow ? 4 : Math.round(plot / 80);
  const all = d3.ticks(axis.domain[0] / axis.unit, axis.domain[1] / axis.unit, most);
  // Seconds are counted whole.
  const ticks = (axis.domain[1] - axis.domain[0] >= 2 ? all.filter(Number.isInteger) : all).map((tick) => tick * axis.unit);
  return { ...axis, ticks };
}

/** All charts over time begin at the same pixel, so that one line of sight goes through them. */
const TIME_MARGIN = 56;

/** Shades the time of each trial; its number stands at the top where there is room. */
function trialShades(view, above = 4) {
  const trials = (view.trials ?? []).filter((trial) => isNumber(trial.start_s));
  if (!trials.length) return null;
  return custom((scales, frame) => trials.map((trial) => {
    const from = Math.max(frame.left, scales.x(trial.start_s));
    const to = Math.min(frame.right, scales.x(trial.start_s + trial.seconds));
    if (to <= from) return null;
    const text = String(trial.number);
    return [
      element('rect', { x: from, y: frame.top, width: to - from, height: frame.bottom - frame.top, fill: 'var(--panel)', class: 'trial' }),
      to - from > textWidth(text) + 2
        ? label(text, (from + to) / 2, frame.top - above, { anchor: 'middle', priority: 8, fill: 'var(--secondary)' }) : null,
    ];
  }));
}

/** Numbered rules where something happened; the list of them stands above the charts. Those of one instant have one rule. */
function eventRules(view) {
  const events = (view.events ?? []).map((event, index) => ({ ...event, number: index + 1 })).filter((event) => isNumber(event.t));
  if (!events.length) return null;
  const instants = d3.groups(events, (event) => Math.round(event.t * 2) / 2);
  return custom((scales, frame) => instants.map(([, together]) => {
    const x = scales.x(together[0].t);
    if (!(x >= frame.left && x <= frame.right)) return null;
    const [first, last] = [together[0].number, together.at(-1).number];
    return [
      element('line', { x1: x, x2: x, y1: frame.top, y2: frame.bottom, stroke: 'var(--secondary)', 'stroke-width': 0.8 }),
      element('circle', { cx: x, cy: frame.top, r: 3, fill: 'var(--secondary)' }),
      instants.length <= 12 ? label(first === last ? `${first}` : `${first} to ${last}`, x + 4, frame.top + 11, { priority: 9, fill: 'var(--secondary)', gives: 'down' }) : null,
    ];
  }));
}

/** The end of a run that was cut off. */
function cutOff(view) {
  if (!view.summary?.partial) return null;
  const last = view.seconds?.t?.at(-1);
  if (!isNumber(last)) return null;
  return custom((scales, frame) => {
    const x = Math.min(scales.x(last), frame.right - 1);
    return [
      element('line', { x1: x - 2, x2: x - 2, y1: frame.top, y2: frame.bottom, stroke: INK }),
      element('line', { x1: x + 1, x2: x + 1, y1: frame.top, y2: frame.bottom, stroke: INK }),
      label('cut off', x - 6, frame.top + 12, { anchor: 'end', priority: 2 }),
    ];
  });
}

/** Where a line over time is broken: at missing seconds, and between the trials of a search. */
const breaksOf = (view) => ({ gap: 1.5 * (view.column_s ?? 1) + 0.6, parts: view.seconds.trial ?? null });

/** The spots of the cursor: one for each second, at the y of `values`. */
function secondSpots(t, values, drawn) {
  return t.map((time, row) => ({ x: drawn.toX(time), y: isNumber(values?.[row]) ? drawn.toY(values[row]) : null, row }));
}

CHARTS.rate = ({ view, width, narrow, height }) => {
  const { seconds } = view;
  const t = seconds?.t ?? [];
  if (!t.length) return null;
  const x = sharedTime(view, width, narrow);
  const plotWidth = width - TIME_MARGIN - 16;
  const columnS = view.column_s ?? 1;
  const points = (values) => reduced(t, values, x.domain, plotWidth, { ...breaksOf(view), lead: columnS });
  const curve = 'step-before';
  // Late answers are good ones that came too late.
  const good = seconds.ok.map((ok, index) => (isNumber(ok) ? Math.max(0, ok - (seconds.late[index] ?? 0)) : null));
  const most = d3.max([...seconds.offered, ...seconds.sent, ...good]) || 1;
  const planned = view.planned?.length ? line(view.planned, { strokeWidth: 1, strokeDasharray: '1 3' }) : null;
  const drawn = panel({
    width, height: height(280, 240), narrow, x,
    y: { domain: [0, most * 1.06], title: 'operations, per second' },
    margin: { left: TIME_MARGIN, right: 16, top: 30 },
    marks: [
      trialShades(view), planned,
      ...seriesMarks(points(seconds.offered), { strokeWidth: 1, curve }),
      ...seriesMarks(points(seconds.sent), { stroke: 'var(--series-a)', strokeWidth: 2, curve }),
      ...seriesMarks(points(good), { stroke: 'var(--series-b)', strokeWidth: 2, strokeDasharray: '5 3', curve }),
      eventRules(view), cutOff(view),
    ],
  });
  return {
    panels: [{ ...drawn, points: secondSpots(t, seconds.sent, drawn), isTime: true }],
    legend: [
      { text: 'offered', sample: lineSample(INK, { width: 1 }) },
      { text: 'sent', sample: lineSample('var(--series-a)') },
      { text: 'good answers in time', sample: lineSample('var(--series-b)', { dash: '5 3' }) },
      planned ? { text: 'planned', sample: lineSample(INK, { width: 1, dash: '1 3' }) } : null,
    ].filter(Boolean),
  };
};

const HEAT_STEPS = 6;

/** The least share of each colour, from one operation of the fullest column to all of them. */
function heatSteps(cells) {
  let fullest = 1;
  for (const column of cells) {
    let sum = 0;
    for (let index = 1; index < column.length; index += 2) sum += column[index];
    fullest = Math.max(fullest, sum);
  }
  const low = Math.min(1 / fullest, 0.1);
  return d3.range(HEAT_STEPS).map((stepIndex) => low ** (1 - stepIndex / HEAT_STEPS));
}

/** The lowest and the highest row with an operation. */
function usedRows(cells) {
  let [lowest, highest] = [Infinity, -1];
  for (const column of cells) {
    if (column.length < 2) continue;
    lowest = Math.min(lowest, column[0]);
    highest = Math.max(highest, column.at(-2));
  }
  return [lowest, highest];
}

/** The cells as an image of one pixel each. */
function heatImage(cells, [lowest, highest], steps) {
  const colours = d3.range(HEAT_STEPS).map((index) => resolved(`--heat-${index + 1}`));
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, cells.length);
  canvas.height = highest - lowest + 1;
  const context = canvas.getContext('2d');
  const image = context.createImageData(canvas.width, canvas.height);
  cells.forEach((column, x) => {
    let sum = 0;
    for (let index = 1; index < column.length; index += 2) sum += column[index];
    for (let index = 0; index < column.length; index += 2) {
      const row = column[index];
      const share = column[index + 1] / sum;
      let colour = 0;
      while (colour + 1 < HEAT_STEPS && share >= steps[colour + 1]) colour += 1;
      const { r, g, b } = colours[colour];
      image.data.set([r, g, b, 255], ((highest - row) * canvas.width + x) * 4);
    }
  });
  context.putImageData(image, 0, 0);
  return canvas.toDataURL('image/png');
}

/** The lines over the cells have a halo of the background. */
function haloed(points, options) {
  return [
    line(points, { ...options, stroke: 'var(--background)', strokeWidth: options.strokeWidth + 2.5, strokeDasharray: null, strokeOpacity: 0.75 }),
    ...seriesMarks(points, options),
  ];
}

CHARTS.latency = ({ view, width, narrow, height, choice }) => {
  const { seconds, heat } = view;
  const t = seconds?.t ?? [];
  const kind = choice('kind') ?? 'corrected';
  const quantiles = seconds?.[kind] ?? {};
  if (!t.length || !(quantiles.max ?? []).some(isNumber)) return null;
  const x = sharedTime(view, width, narrow);
  const plotWidth = width - TIME_MARGIN - 16;
  const columnS = view.column_s ?? 1;
  // The quantiles of a column stand at its middle.
  const middles = t.map((time) => time - columnS / 2);
  const points = (name) => reduced(middles, quantiles[name] ?? [], x.domain, plotWidth, breaksOf(view));
  const { deadline, name } = goalOf(view);
  const edges = heat?.rows ?? [];
  const cells = heat?.[kind] ?? [];
  const values = [...(quantiles.p50 ?? []), ...(quantiles.max ?? []), deadline].filter((value) => value > 0);
  const [lowest, highest] = usedRows(cells);
  const isMapped = edges.length > 1 && highest >= lowest;
  const domain = logDomain(isMapped ? [...values, edges[lowest], edges[highest + 1]] : values, 3);
  const steps = heatSteps(cells);
  const image = custom((scales) => {
    if (!isMapped) return [];
    // Columns stand at their times: there is nothing between the trials of a search.
    const runs = runsOf(t, columnS);
    return runs.map(([from, to]) => {
      const left = scales.x(t[from] - columnS);
      const right = scales.x(t[to - 1]);
      return element('image', {
        x: left, width: Math.max(1, right - left),
        y: scales.y(edges[highest + 1]), height: scales.y(edges[lowest]) - scales.y(edges[highest + 1]),
        preserveAspectRatio: 'none', 'image-rendering': 'pixelated', href: heatImage(cells.slice(from, to), [lowest, highest], steps),
      });
    });
  });
  const drawn = panel({
    width, height: height(360, 260), narrow, x,
    y: { domain, log: true, title: `${kind} latency, ms (log)`, format: trimmed },
    margin: { left: TIME_MARGIN, right: 16, top: 40 },
    marks: [
      trialShades(view, 12), image,
      ...haloed(points('p50'), { strokeWidth: 1.2, strokeDasharray: '1 2' }),
      ...haloed(points('p99'), { strokeWidth: 2.5 }),
      ...haloed(points('max'), { strokeWidth: 1 }),
      deadline ? goalLine(deadline, `${trimmed(deadline)} ms, ${name}`) : null,
      failedStrip(seconds, t, columnS), eventRules(view), cutOff(view),
    ],
  });
  return {
    panels: [{ ...drawn, points: secondSpots(t, quantiles.p99, drawn), isTime: true }],
    legend: [
      { text: 'p50', sample: lineSample(INK, { width: 1.2, dash: '1 2' }) },
      { text: 'p99', sample: lineSample(INK, { width: 2.5 }) },
      { text: 'max', sample: lineSample(INK, { width: 1 }) },
      ...(cells.length ? heatLegend(steps) : []),
      hasFailed(seconds) ? { text: 'failed or not sent in that second', sample: element('rect', { x: 12, y: 1, width: 3, height: 10, fill: 'var(--bad)' }) } : null,
    ].filter(Boolean),
  };
};

/** Stretches without a gap, as [from, to) of the columns. */
function runsOf(times, columnS) {
  const runs = [];
  let from = 0;
  times.forEach((time, index) => {
    if (index > 0 && time - times[index - 1] > 1.5 * columnS) {
      runs.push([from, index]);
      from = index;
    }
  });
  if (times.length > from) runs.push([from, times.length]);
  return runs;
}

function heatLegend(steps) {
  return steps.map((share, index) => ({
    text: index === 0 ? 'one operation' : `≥ ${trimmed(Number((share * 100).toPrecision(2)))} %`,
    sample: element('rect', { x: 4, y: 1, width: 20, height: 10, fill: `var(--heat-${index + 1})` }),
  }));
}

const failedOf = (seconds, index) => (seconds.unsent?.[index] ?? 0)
  + d3.sum(Object.values(seconds.errors ?? {}), (counts) => counts[index] ?? 0);

const hasFailed = (seconds) => seconds.t.some((_, index) => failedOf(seconds, index) > 0);

/** What has no latency, above the top edge: a mark for each second with operations that failed or were not sent. */
function failedStrip(seconds, t, columnS) {
  if (!hasFailed(seconds)) return null;
  return custom((scales, frame) => t.map((time, index) => {
    if (!failedOf(seconds, index)) return null;
    const left = scales.x(time - columnS);
    return element('rect', {
      x: left, y: frame.top - 9, width: Math.max(1.5, scales.x(time) - left - 0.5), height: 7, fill: 'var(--bad)', class: 'failed',
    });
  }));
}

CHARTS.errors = ({ view, width, narrow }) => {
  const { seconds } = view;
  const t = seconds?.t ?? [];
  const rows = Object.entries(seconds?.errors ?? {}).filter(([, counts]) => counts.some((count) => count > 0));
  if (seconds?.unsent?.some((count) => count > 0)) rows.push(['unsent', seconds.unsent]);
  if (!t.length || !rows.length) return null;
  const x = sharedTime(view, width, narrow);
  const rowHeight = 26;
  const names = rows.map(([name]) => name);
  const most = d3.max(rows, ([, counts]) => d3.max(counts));
  const columnS = view.column_s ?? 1;
  const cells = custom((scales, frame) => rows.map(([name, counts], row) => {
    const y = frame.top + row * rowHeight;
    const fault = view.faults?.[name] ?? '';
    const total = `${grouped(d3.sum(counts))}${fault ? `, ${fault}` : ''}`;
    return [
      element('text', { x: frame.left, y: y + 11, fill: INK, 'text-anchor': 'start', class: 'row-name' }, `${name}: ${total}`),
      element('line', { x1: frame.left, x2: frame.right, y1: y + rowHeight - 2.5, y2: y + rowHeight - 2.5, stroke: 'var(--grid)' }),
      counts.map((count, index) => {
        if (!(count > 0)) return null;
        const left = scales.x(t[index] - columnS);
        // By the logarithm: one failed operation must be seen beside ten thousand.
        const size = 3 + 7 * (Math.log1p(count) / Math.log1p(most));
        return element('rect', {
          x: left, y: y + rowHeight - 3 - size, width: Math.max(1.5, scales.x(t[index]) - left), height: size, fill: 'var(--bad)', class: 'cell',
        });
      }),
    ];
  }));
  const top = 8;
  const drawn = panel({
    width, height: names.length * rowHeight + top + 44, narrow, x,
    y: { domain: [0, 1], ticks: [], title: '' },
    margin: { left: TIME_MARGIN, right: 16, top },
    marks: [trialShadesBare(view), cells, cutOff(view)],
  });
  return { panels: [{ ...drawn, points: secondSpots(t, null, drawn), isTime: true }], legend: [] };
};

/** The shades without the numbers, where there is no room above. */
function trialShadesBare(view) {
  const trials = (view.trials ?? []).filter((trial) => isNumber(trial.start_s));
  return trials.length ? custom((scales, frame) => trials.map((trial) => {
    const from = Math.max(frame.left, scales.x(trial.start_s));
    const to = Math.min(frame.right, scales.x(trial.start_s + trial.seconds));
    return to > from ? element('rect', { x: from, y: frame.top, width: to - from, height: frame.bottom - frame.top, fill: 'var(--panel)' }) : null;
  })) : null;
}

CHARTS.connections = ({ view, width, narrow, height }) => {
  const { seconds } = view;
  const t = seconds?.t ?? [];
  const held = seconds?.held ?? [];
  if (!t.length || !held.some((count) => count > 0)) return null;
  const x = sharedTime(view, width, narrow);
  const plotWidth = width - TIME_MARGIN - 16;
  const breaks = breaksOf(view);
  const lost = seconds.lost ?? [];
  const asked = seconds.asked ?? [];
  const most = d3.max([...held, ...asked]) || 1;
  const lossMarks = custom((scales, frame) => {
    const seen = t.map((time, index) => [time, lost[index] ?? 0, held[index]]).filter(([, count]) => count > 0);
    const largest = [...seen].sort((a, b) => b[1] - a[1]).slice(0, 6);
    return seen.map((loss) => {
      const px = scales.x(loss[0]);
      const y = isNumber(loss[2]) ? scales.y(loss[2]) : frame.top + 8;
      return [
        element('path', { d: `M${px - 4},${y - 4}L${px + 4},${y + 4}M${px - 4},${y + 4}L${px + 4},${y - 4}`, stroke: 'var(--bad)', 'stroke-width': 2, class: 'lost' }),
        largest.includes(loss) ? label(`${grouped(loss[1])} lost`, px + 6, y + 14, { priority: 4 }) : null,
      ];
    });
  });
  const plateaus = (view.plateaus ?? []).filter((level) => isNumber(level.t));
  const levels = custom((scales, frame) => plateaus.map((level) => {
    const px = scales.x(level.t);
    if (!(px >= frame.left && px <= frame.right)) return null;
    const answered = isNumber(level.answered) ? `, ${level.answered >= level.held ? 'all' : grouped(level.answered)} answered` : '';
    return label(`${short(level.held)}${answered}`, px, scales.y(level.held) - 8, { anchor: 'end', priority: 5, gives: 'up' });
  }));
  const drawn = panel({
    width, height: height(280, 240), narrow, x,
    y: { domain: [0, most * 1.12], title: 'connections held (counted on the client side)' },
    margin: { left: TIME_MARGIN, right: 16, top: 30 },
    marks: [
      trialShades(view),
      asked.some(isNumber) ? step(reduced(t, asked, x.domain, plotWidth, breaks), { strokeWidth: 1 }) : null,
      ...seriesMarks(reduced(t, held, x.domain, plotWidth, breaks), { stroke: 'var(--series-a)', strokeWidth: 2 }),
      levels, lossMarks, cutOff(view),
    ],
  });
  const panels = [{ ...drawn, points: secondSpots(t, held, drawn), isTime: true }];
  const opened = seconds.opened ?? [];
  if (opened.some((count) => count > 0)) {
    const rate = panel({
      width, height: 150, narrow, x,
      y: { domain: [0, (d3.max(opened) || 1) * 1.1], title: 'connections opened, per second' },
      margin: { left: TIME_MARGIN, right: 16, top: 26 },
      marks: [trialShadesBare(view), ...seriesMarks(reduced(t, opened, x.domain, plotWidth, { ...breaks, lead: view.column_s ?? 1 }), { strokeWidth: 1.5, curve: 'step-before' })],
    });
    panels.push({ ...rate, points: secondSpots(t, opened, rate), isTime: true });
  }
  return {
    panels, stacked: true,
    legend: [
      asked.some(isNumber) ? { text: 'asked', sample: lineSample(INK, { width: 1 }) } : null,
      { text: 'held', sample: lineSample('var(--series-a)') },
      lost.some((count) => count > 0)
        ? { text: 'lost', sample: element('path', { d: 'M10,2L18,10M10,10L18,2', stroke: 'var(--bad)', 'stroke-width': 2 }) } : null,
    ].filter(Boolean),
  };
};
