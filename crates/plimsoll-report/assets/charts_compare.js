'use strict';
// Comparisons: rounds of a paired one, several runs laid over each other, KPIs by object size, what confirmed a cause.

const OVERLAY_STYLES = [
  { stroke: 'var(--series-a)', width: 2, dash: null }, { stroke: 'var(--series-b)', width: 2, dash: '6 4' },
  { stroke: 'var(--series-c)', width: 2, dash: '2 2' }, { stroke: 'var(--series-d)', width: 1.2, dash: null },
];

const letterOf = (index) => String.fromCharCode(65 + index);

function overlaid(index) {
  return { ...OVERLAY_STYLES[index], name: letterOf(index), label: letterOf(index) };
}

/** 1.06 → "+6 %"; the axis of ratios is logarithmic and labelled in percent. */
function ratioText(ratio) {
  const percent = (ratio - 1) * 100;
  const text = trimmed(Number(Math.abs(percent).toPrecision(3)));
  return `${percent > 0 ? '+' : percent < 0 ? '−' : ''}${text} %`;
}

/** An axis of ratios over `length` pixels, on which no two labels touch; 1 is always one of them. */
function ratioAxis(ratios, title, length, gap) {
  const most = Math.max(0.005, d3.max(ratios.filter((ratio) => ratio > 0), (ratio) => Math.abs(Math.log(ratio))) * 1.1);
  const domain = [Math.exp(-most), Math.exp(most)];
  const at = (ratio) => ((Math.log(ratio) + most) / (2 * most)) * length;
  const kept = [1];
  for (const count of [4, 8]) {
    for (const percent of d3.ticks((domain[0] - 1) * 100, (domain[1] - 1) * 100, count)) {
      const ratio = 1 + percent / 100;
      if (ratio > 0 && kept.every((one) => Math.abs(at(one) - at(ratio)) >= gap)) kept.push(ratio);
    }
  }
  return { domain, log: true, ticks: kept.sort((a, b) => a - b), format: ratioText, title, grid: true };
}

const FINDINGS = { higher: 'B is higher', lower: 'B is lower', 'no-difference': 'no difference seen' };

CHARTS.forest = ({ view, width, narrow }) => {
  const compare = view.summary?.compare;
  if (!compare) return null;
  const rows = [compare, ...(compare.others ?? [])].filter((one) => one.difference?.ratio > 0).map(({ metric, difference }) => (
    { name: metric, ratio: difference.ratio, low: difference.ratio_low, high: difference.ratio_high, finding: difference.finding }));
  if (!rows.length) return null;
  const half = compare.difference?.noise.half_width;
  const x = ratioAxis(rows.flatMap((row) => [row.low, row.high, row.ratio, half ? 1 + half : null, compare.threshold ? 1 + compare.threshold : null]), 'B against A', width - 40, 76);
  const rowHeight = 40;
  const top = 10;
  const marks = custom((scales, frame) => [
    half ? element('rect', {
      x: scales.x(1 / (1 + half)), width: scales.x(1 + half) - scales.x(1 / (1 + half)), y: frame.top, height: frame.bottom - frame.top, fill: 'var(--grid)', class: 'noise',
    }) : null,
    element('line', { x1: scales.x(1), x2: scales.x(1), y1: frame.top, y2: frame.bottom, stroke: INK }),
    compare.threshold > 0 ? [1 + compare.threshold, 1 / (1 + compare.threshold)].map((ratio) => element('line', {
      x1: scales.x(ratio), x2: scales.x(ratio), y1: frame.top, y2: frame.bottom, stroke: INK, 'stroke-dasharray': '12 5',
    })) : null,
    rows.map((row, index) => {
      const y = frame.top + index * rowHeight + 28;
      const px = scales.x(row.ratio);
      return [
        element('text', { x: frame.left, y: y - 14, 'text-anchor': 'start', fill: INK, 'font-weight': index === 0 ? 700 : 400 }, `${row.name}: ${ratioText(row.ratio)}, ${FINDINGS[row.finding] ?? row.finding}`),
        row.low > 0 ? element('path', { d: `M${scales.x(row.low)},${y}H${scales.x(row.high)}M${scales.x(row.low)},${y - 4}V${y + 4}M${scales.x(row.high)},${y - 4}V${y + 4}`, stroke: INK, fill: 'none', 'stroke-width': 1.5 }) : null,
        element('rect', { x: px - 4.5, y: y - 4.5, width: 9, height: 9, fill: 'var(--series-a)' }),
      ];
    }),
  ]);
  const drawn = panel({
    width, height: rows.length * rowHeight + top + 44, narrow, x, y: { domain: [0, 1], ticks: [], title: '' }, margin: { left: 8, right: 24, top }, marks: [marks],
  });
  const points = rows.map((row, index) => ({
    x: drawn.toX(row.ratio), y: drawn.frame.top + index * rowHeight + 28,
    entries: [['figure', row.name], ['B against A', ratioText(row.ratio)], ['interval', row.low > 0 ? `${ratioText(row.low)} to ${ratioText(row.high)}` : NOT_MEASURED], ['finding', FINDINGS[row.finding] ?? row.finding]],
  }));
  return {
    panels: [{ ...drawn, points, isScatter: true }],
    legend: half ? [{ text: 'what a comparison of A with A would show', sample: element('rect', { x: 2, y: 1, width: 24, height: 10, fill: 'var(--grid)' }) }] : [],
  };
};

CHARTS.rounds = ({ view, width, narrow }) => {
  const compare = view.summary?.compare;
  const rounds = compare?.rounds ?? [];
  const values = rounds.flatMap((round) => [round.a.value, round.b.value]).filter(isNumber);
  if (!values.length) return null;
  const x = { domain: [0.5, rounds.length + 0.5], title: 'round', whole: true, format: (tick) => String(tick) };
  const [least, most] = d3.extent(values);
  const y = { domain: spread(least, most, 0.12), title: `${compare.metric}, ${compare.unit}`, format: short };
  const dots = custom((scales) => rounds.map((round) => {
    const px = scales.x(round.number);
    const sides = [['a', -4], ['b', 4]].filter(([side]) => isNumber(round[side].value)).map(([side, dx]) => [px + dx, scales.y(round[side].value), side]);
    const isCounted = isNumber(round.ratio);
    return [
      sides.length === 2 ? element('line', { x1: sides[0][0], y1: sides[0][1], x2: sides[1][0], y2: sides[1][1], stroke: 'var(--axis)' }) : null,
      sides.map(([cx, cy, side]) => (side === 'a'
        ? element('circle', { cx, cy, r: 4, fill: isCounted ? 'var(--series-a)' : 'var(--background)', stroke: 'var(--series-a)', 'stroke-width': 1.5 })
        : element('rect', { x: cx - 4, y: cy - 4, width: 8, height: 8, fill: isCounted ? 'var(--series-b)' : 'var(--background)', stroke: 'var(--series-b)', 'stroke-width': 1.5 }))),
    ];
  }));
  const drawn = panel({ width, height: 260, narrow, x, y, margin: { top: 26 }, marks: [dots] });
  const spots = (where) => rounds.map((round, row) => ({ x: where.toX(round.number), y: null, row }));
  const panels = [{ ...drawn, points: spots(drawn) }];
  const ratios = rounds.filter((round) => round.ratio > 0);
  if (ratios.length) {
    const axis = ratioAxis(ratios.map((round) => round.ratio), 'B against A, %', 120, 18);
    const trend = panel({
      width, height: 190, narrow, x, y: axis, margin: { top: 26 },
      marks: [
        Plot.ruleY([1], { stroke: INK }),
        Plot.dot(ratios, { x: 'number', y: 'ratio', r: 4, fill: INK }),
      ],
    });
    panels.push({ ...trend, points: spots(trend) });
  }
  return {
    panels, stacked: true,
    legend: [
      { text: 'A', sample: element('circle', { cx: 14, cy: 6, r: 4, fill: 'var(--series-a)' }) },
      { text: 'B', sample: element('rect', { x: 10, y: 2, width: 8, height: 8, fill: 'var(--series-b)' }) },
      { text: 'hollow: INVALID, not counted', sample: element('circle', { cx: 14, cy: 6, r: 4, fill: 'none', stroke: 'var(--axis)', 'stroke-width': 1.5 }) },
    ],
  };
};

// Several runs over each other: nothing is found, only shown.

CHARTS.overlay_bounds = ({ views, width, narrow }) => {
  const finds = views.slice(0, 4).map((view, index) => ({ view, index, find: view.summary?.find })).filter(({ find }) => find && (isNumber(find.lower) || isNumber(find.upper)));
  if (finds.length < 2) return null;
  const loads = finds.flatMap(({ find }) => [find.lower, find.upper, find.safe]).filter(isNumber);
  const x = loadAxis(finds[0].find, [...loads, d3.min(loads) * 0.9, d3.max(loads) * 1.1]);
  const rowHeight = 64;
  const top = 10;
  const bars = custom((scales, frame) => finds.map(({ find, index }, row) => {
    const style = OVERLAY_STYLES[index];
    const y = frame.top + row * rowHeight + 36;
    const [low, high] = [find.lower ?? find.upper, find.upper ?? find.lower].map(scales.x);
    const text = `${letterOf(index)}: ${[find.lower, find.upper].filter(isNumber).map((load) => loadText(find, load)).join(' to ')}`;
    return [
      element('text', { x: frame.left, y: y - 22, 'text-anchor': 'start', fill: INK, 'font-weight': 600 }, isNumber(find.safe) ? `${text}; safe ${loadText(find, find.safe)}` : text),
      element('rect', { x: low, y: y - 12, width: Math.max(2, high - low), height: 18, fill: style.stroke, 'fill-opacity': 0.35, stroke: style.stroke, 'stroke-width': 1.5, class: 'band' }),
      isNumber(find.safe) ? element('path', { d: `M${scales.x(find.safe)},${y - 16}V${y + 10}`, stroke: style.stroke, 'stroke-width': 2, 'stroke-dasharray': '6 2 2 2' }) : null,
    ];
  }));
  const drawn = panel({
    width, height: finds.length * rowHeight + top + 44, narrow, x: { ...x, grid: true }, y: { domain: [0, 1], ticks: [], title: '' }, margin: { left: 8, right: 20, top }, marks: [bars],
  });
  const points = finds.map(({ find, index }, row) => ({
    x: drawn.toX(find.lower ?? find.upper), y: drawn.frame.top + row * rowHeight + 36,
    entries: [['run', letterOf(index)], ['lower', shown(find.lower, '/s')], ['upper', shown(find.upper, '/s')], ['safe', shown(find.safe, '/s')]],
  }));
  return { panels: [{ ...drawn, points, isScatter: true }], legend: [] };
};

CHARTS.overlay_time = ({ views, width, narrow, choice }) => {
  const name = choice('quantile') ?? 'p99';
  const runs = views.slice(0, 4).map((view, index) => ({ index, t: view.seconds?.t ?? [], values: view.seconds?.corrected?.[name] ?? [] })).filter(({ values }) => values.some((value) => value > 0));
  if (runs.length < 2) return null;
  const start = (run) => run.t[0] - 1;
  const end = d3.max(runs, (run) => run.t.at(-1) - start(run));
  const x = timeAxis([0, end]);
  const all = runs.flatMap((run) => run.values.filter((value) => value > 0));
  const drawn = panel({
    width, height: narrow ? 260 : 320, narrow, x, y: { domain: logDomain(all, 1), log: true, title: `${name} of the corrected latency, ms (log)`, format: trimmed },
    margin: { left: TIME_MARGIN, top: 30 },
    marks: runs.flatMap((run) => {
      const style = OVERLAY_STYLES[run.index];
      const points = reduced(run.t.map((time) => time - start(run)), run.values.map((value) => value || null), x.domain, width - TIME_MARGIN, { gap: 2.6 });
      return seriesMarks(points, { stroke: style.stroke, strokeWidth: style.width, strokeDasharray: style.dash });
    }),
  });
  const longest = runs.reduce((a, b) => (b.t.length > a.t.length ? b : a));
  const points = longest.t.map((time, index) => ({
    x: drawn.toX(time - start(longest)), y: null,
    entries: [['time', shown(time - start(longest), 's')], ...runs.map((run) => [letterOf(run.index), shown(run.values[index], 'ms')])],
  }));
  return {
    panels: [{ ...drawn, points, note: 'Each run begins at the start of its own load.' }],
    legend: runs.map((run) => ({ text: letterOf(run.index), sample: lineSample(OVERLAY_STYLES[run.index].stroke, OVERLAY_STYLES[run.index]) })),
  };
};

CHARTS.overlay_ratio = ({ views, width, narrow }) => {
  const [a, b] = views.map((view) => spectrumPoints(view.spectrum?.corrected ?? []).points);
  if (views.length !== 2 || a.length < 2 || b.length < 2) return null;
  const find = (points, x) => points.find((one) => one[0] >= x - 1e-9)?.[1];
  const ratios = a.map(([x, ms]) => [x, find(b, x) / ms]).filter(([, ratio]) => ratio > 0 && Number.isFinite(ratio));
  if (ratios.length < 2) return null;
  const ticks = NINES_TICKS.map(nines).filter((tick) => tick <= ratios.at(-1)[0] * 1.02);
  const axis = ratioAxis(ratios.map(([, ratio]) => ratio), 'latency of B against A (log)', 150, 18);
  const drawn = panel({
    width, height: narrow ? 220 : 240, narrow,
    x: { domain: [0, ratios.at(-1)[0] * 1.02], ticks: narrow ? ticks.filter((_, index) => index % 2 === 0) : ticks, format: (tick) => quantileText(NINES_TICKS.find((q) => nines(q) === tick) ?? 0), title: 'share of operations that were faster', grid: true },
    y: axis,
    margin: { top: 30, right: 20 },
    marks: [Plot.ruleY([1], { stroke: INK }), line(ratios, { strokeWidth: 2, stroke: 'var(--series-b)' })],
  });
  const points = ratios.map(([x, ratio]) => ({ x: drawn.toX(x), y: drawn.toY(ratio), entries: [['share faster', quantileText(Number((1 - 10 ** -x).toPrecision(7)))], ['B against A', ratioText(ratio)]] }));
  return { panels: [{ ...drawn, points }], legend: [] };
};

// RFC 9411.

CHARTS.kpis = ({ view, width, narrow, height }) => {
  const results = (view.summary?.rfc9411?.results ?? []).filter((result) => isNumber(result.load) || isNumber(result.target));
  if (!results.length) return null;
  const names = results.map((result) => (result.scenario ? `${result.object}, scenario ${result.scenario}` : result.object));
  const values = results.flatMap((result) => [result.load, result.target, result.failed_load]).filter((value) => value > 0);
  const unit = results[0].unit;
  const isOne = names.length === 1;
  const marks = custom((scales) => results.map((result, index) => {
    const px = scales.x(index);
    const nodes = [];
    if (result.target > 0) nodes.push(element('line', { x1: px - 16, x2: px + 16, y1: scales.y(result.target), y2: scales.y(result.target), stroke: INK, 'stroke-width': 1.5, 'stroke-dasharray': '6 3' }));
    if (result.failed_load > 0) nodes.push(verdictShape('bad', px, scales.y(result.failed_load), 10));
    if (result.load > 0) {
      nodes.push(verdictShape(result.verdict, px, scales.y(result.load), 10));
      nodes.push(label(short(result.load), px + 10, scales.y(result.load) + 4, { priority: 2, weight: 600 }));
    }
    return nodes;
  }));
  const drawn = panel({
    width, height: height(320, 280), narrow,
    x: { domain: [-0.5, names.length - 0.5], ticks: d3.range(names.length), format: (index) => names[index] ?? '', title: 'object size' },
    y: { domain: logDomain(values, isOne ? 0.5 : 1), log: true, title: `${unit} (log)`, format: short },
    margin: { top: 30 }, marks: [marks],
  });
  const points = results.map((result, row) => ({
    x: drawn.toX(row), y: result.load > 0 ? drawn.toY(result.load) : null, row,
    entries: [['object', names[row]], ['load', shown(result.load, 'count')], ['target', shown(result.target, 'count')], ['failed load', shown(result.failed_load, 'count')], ['verdict', result.verdict.toUpperCase()]],
  }));
  const panels = [{ ...drawn, points }];
  for (const [index, result] of results.entries()) {
    const series = sustainPanel(result, names[index], panelWidth(width));
    if (series) panels.push(series);
  }
  if (panels.length > 1) panels[0].heading = 'Load by object size';
  return {
    panels,
    legend: [
      { text: 'load that the case reports', sample: verdictShape('good', 14, 6) },
      { text: 'lowest load that failed', sample: verdictShape('bad', 14, 6) },
      { text: 'target', sample: lineSample(INK, { width: 1.5, dash: '6 3' }) },
    ],
  };
};

/** The KPI of the case in each second of the sustain phase. */
function sustainPanel(result, name, width) {
  const series = result.series ?? [];
  const keys = { 'connections/s': 'tcp_connections_per_second', 'transactions/s': 'application_transactions_per_second', connections: 'concurrent_tcp_connections' };
  const key = keys[result.unit] ?? 'application_transactions_per_second';
  const points = series.map((sample) => [sample.second, sample[key]]);
  if (points.length < 2) return null;
  const end = points.at(-1)[0];
  const drawn = panel({
    width, height: 180, narrow: true, x: { domain: [0, end], title: 'second of the sustain phase', format: short },
    y: { domain: [0, d3.max(points, ([, value]) => value) * 1.1 || 1], title: result.unit, format: short },
    margin: { top: 26 },
    marks: [
      ...seriesMarks(reduced(points.map(([t]) => t), points.map(([, value]) => value), [0, end], width), { stroke: 'var(--series-a)' }),
      end > 300 ? Plot.ruleX([300], { stroke: INK, strokeDasharray: '6 3' }) : null,
    ],
  });
  const spots = points.map(([t, value]) => ({ x: drawn.toX(t), y: drawn.toY(value), entries: [['second', grouped(t)], [result.unit, shown(value, 'count')]] }));
  return { ...drawn, heading: `${name}: sustain phase`, points: spots };
}

// The cause: what was predicted against what was measured, in each pair.

CHARTS.confirmation = ({ view, width, narrow }) => {
  const pairs = (view.summary?.causes ?? []).flatMap((cause) => (cause.confirmations ?? []).flatMap((one) => (one.pairs ?? []).map((pair) => ({ ...pair, predicted: one.predicted_ratio, cause: cause.cause }))));
  const rows = pairs.map((pair) => ({ ...pair, measured: pair.changed_per_s / pair.sham_per_s })).filter((pair) => pair.measured > 0);
  if (!rows.length) return null;
  const x = ratioAxis(rows.flatMap((row) => [row.measured, row.predicted]), 'capacity with the limit lowered, against without', width - 40, 76);
  const rowHeight = 22;
  const top = 10;
  const marks = custom((scales, frame) => rows.map((row, index) => {
    const y = frame.top + index * rowHeight + 12;
    const [from, to] = [scales.x(row.predicted), scales.x(row.measured)];
    return [
      element('line', { x1: from, x2: to, y1: y, y2: y, stroke: 'var(--axis)', 'stroke-width': 1.5 }),
      element('circle', { cx: from, cy: y, r: 4, fill: 'var(--background)', stroke: INK, 'stroke-width': 1.5 }),
      element('circle', { cx: to, cy: y, r: 4.5, fill: row.invalid ? 'var(--background)' : 'var(--series-a)', stroke: 'var(--series-a)', 'stroke-width': 1.5 }),
    ];
  }));
  const drawn = panel({
    width, height: rows.length * rowHeight + top + 44, narrow, x, y: { domain: [0, 1], ticks: [], title: '' }, margin: { left: 8, right: 24, top }, marks: [marks],
  });
  const points = rows.map((row, index) => ({
    x: drawn.toX(row.measured), y: drawn.frame.top + index * rowHeight + 12,
    entries: [['pair', String(index + 1)], ['predicted', ratioText(row.predicted)], ['measured', ratioText(row.measured)]],
  }));
  return {
    panels: [{ ...drawn, points, isScatter: true }],
    legend: [
      { text: 'predicted', sample: element('circle', { cx: 14, cy: 6, r: 4, fill: 'none', stroke: INK, 'stroke-width': 1.5 }) },
      { text: 'measured', sample: element('circle', { cx: 14, cy: 6, r: 4.5, fill: 'var(--series-a)' }) },
    ],
  };
};
