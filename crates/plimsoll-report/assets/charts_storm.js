'use strict';
// The charts of a search for the largest storm: how long each storm took, and the recovery of two of them.

/** The storms whose clients came back as asked for, each with its row in the table. */
function stormsAsAsked(storm) {
  return (storm?.storms ?? []).map((one, row) => ({ ...one, row })).filter((one) => !isNumber(one.jitter_s));
}

/** The storms that say most: the largest that was GOOD, and the smallest that was not. */
function tellingStorms(storms) {
  const good = storms.filter((one) => one.verdict === 'good');
  const bad = storms.filter((one) => one.verdict === 'bad');
  const endless = bad.filter((one) => one.endless);
  return [d3.greatest(good, (one) => one.cut), d3.least(endless.length ? endless : bad, (one) => one.cut)].filter(Boolean);
}

CHARTS.storms = ({ view, width, narrow, height }) => {
  const { find, storm } = view.summary ?? {};
  const storms = stormsAsAsked(storm);
  if (!storms.length) return null;
  // A storm that was ended before all were back is drawn at the top.
  const times = storms.map((one) => one.recovered_s).filter(isNumber);
  const most = 1.3 * Math.max(storm.recover_s, d3.max(times) ?? 0);
  const marks = custom((scales, frame) => storms.map((one) => {
    const isBack = isNumber(one.recovered_s);
    const [x, y] = [scales.x(one.cut), isBack ? scales.y(one.recovered_s) : frame.top + 8];
    return [
      verdictMark({ verdict: one.verdict, x, y, number: one.trial, off: isBack ? null : 'above' }),
      one.endless ? label('does not end', x + 9, y + 4, { priority: 2, weight: 600 }) : null,
    ];
  }));
  const drawn = panel({
    width, height: height(360, 300), narrow,
    x: { domain: [0, storm.connections * 1.03], title: `connections cut, of ${grouped(storm.connections)}`, format: short },
    y: { domain: [0, most], title: 'all clients back after, s', format: trimmed },
    margin: { top: 40 },
    marks: [foundMarks(find, { isNarrow: true }), goalLine(storm.recover_s, `--recover ${shown(storm.recover_s, 's')}`), marks],
  });
  const points = storms.map((one) => ({
    x: drawn.toX(one.cut), y: isNumber(one.recovered_s) ? drawn.toY(one.recovered_s) : null, row: one.row,
    entries: [
      ['cut', grouped(one.cut)], ['all back after', isNumber(one.recovered_s) ? shown(one.recovered_s, 's') : 'not all'],
      ['attempts', grouped(one.attempts)], ['given up', grouped(one.gave_up)], ['verdict', one.verdict.toUpperCase()],
    ],
  }));
  return { panels: [{ ...drawn, points }] };
};

/** What the server's host is read in each second of a storm. */
const READINGS = [
  ['accept_queue', 'connections waiting', "Connections that wait to be accepted on the server's host"],
  ['server_cpu', 'CPUs', "CPUs that the server's processes use"],
];

const RECOVERY_STYLES = [{ stroke: 'var(--good)', strokeWidth: 2 }, { stroke: 'var(--bad)', strokeWidth: 2, strokeDasharray: '6 3' }];

CHARTS.recovery = ({ view, width, narrow, height }) => {
  const storm = view.summary?.storm;
  const shownStorms = tellingStorms(stormsAsAsked(storm)).filter((one) => one.seconds.length);
  if (!shownStorms.length) return null;
  const curves = shownStorms.map((one) => {
    let back = 0;
    const missing = [[0, one.cut], ...one.seconds.map((second, index) => [index + 1, Math.max(0, one.cut - (back += second.back))])];
    const p99 = one.seconds.map((second, index) => [index + 0.5, second.p99_ms]).filter(([, value]) => isNumber(value));
    return { one, missing, p99, style: RECOVERY_STYLES[one.verdict === 'good' ? 0 : 1] };
  });
  const last = d3.max(curves, ({ one }) => one.seconds.length);
  const x = { domain: [0, last], title: 'seconds after the cut', format: short };
  const rows = ({ one }) => one.seconds.map((second, index) => ({
    second: index + 1, entries: [['storm of', grouped(one.cut)], ['second', String(index + 1)], ['back', grouped(second.back)], ['attempts', grouped(second.attempts)], ['retries', grouped(second.retries)], ['given up', grouped(second.gave_up)], ['TLS handshakes', grouped(second.handshakes)], ['waiting to be accepted', isNumber(second.accept_queue) ? grouped(second.accept_queue) : '-'], ["server's CPUs", isNumber(second.server_cpu) ? trimmed(second.server_cpu) : '-']],
  }));
  const missing = panel({
    width, height: height(260, 220), narrow, x,
    y: { domain: [0, d3.max(curves, ({ one }) => one.cut) * 1.1], title: 'clients not back', format: short },
    marks: curves.map(({ missing: points, style }) => line(points, style)),
  });
  const points = curves.flatMap((curve) => rows(curve).map(({ second, entries }) => ({
    x: missing.toX(second), y: missing.toY(curve.missing[second][1]), row: null, entries,
  })));
  const panels = [{ ...missing, points, heading: 'Clients that are not back' }];
  const handshakes = curves.flatMap(({ one }) => one.seconds.map((second) => second.handshakes));
  if (d3.max(handshakes) > 0) {
    const of = ({ one }, count) => one.seconds.map((second, index) => [index + 0.5, count(second)]);
    const drawn = panel({
      width, height: height(200, 180), narrow, x,
      y: { domain: [0, d3.max(handshakes) * 1.15], title: 'handshakes per second', format: short },
      marks: curves.flatMap((curve) => [
        line(of(curve, (second) => second.handshakes), curve.style),
        line(of(curve, (second) => second.resumed), { ...curve.style, strokeWidth: 1, strokeDasharray: '1 3' }),
      ]),
    });
    panels.push({ ...drawn, points: [], heading: 'TLS handshakes, and dotted those that resumed a session' });
  }
  for (const [field, title, heading] of READINGS) {
    const of = ({ one }) => one.seconds.map((second, index) => [index + 0.5, second[field]]).filter(([, value]) => isNumber(value));
    const most = d3.max(curves.flatMap(of), ([, value]) => value);
    if (!(most > 0)) continue;
    const drawn = panel({
      width, height: height(200, 180), narrow, x,
      y: { domain: [0, most * 1.15], title, format: trimmed },
      marks: curves.map((curve) => line(of(curve), curve.style)),
    });
    panels.push({ ...drawn, points: [], heading });
  }
  const latencies = curves.flatMap(({ p99 }) => p99.map(([, value]) => value));
  if (latencies.length) {
    const drawn = panel({
      width, height: height(200, 180), narrow, x,
      y: { domain: [0, d3.max(latencies) * 1.15], title: 'p99 of the others, ms', format: trimmed },
      marks: curves.map(({ p99, style }) => line(p99, style)),
    });
    panels.push({ ...drawn, points: [], heading: 'Latency of the connections that were not cut' });
  }
  return {
    panels, stacked: true,
    legend: curves.map(({ one, style }) => ({
      text: `storm of ${grouped(one.cut)}, ${one.verdict.toUpperCase()}${one.endless ? ', does not end' : ''}`,
      sample: lineSample(style.stroke, { width: style.strokeWidth, dash: style.strokeDasharray }),
    })),
  };
};

