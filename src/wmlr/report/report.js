"use strict";

(() => {
  const { Chart, number } = Charts;
  const data = JSON.parse(document.getElementById("data").textContent);
  const parts = Array.from({ length: data.k }, (_, part) => part);
  const called = (part) => `component ${part + 1}`;
  const percent = (share) => `${(100 * share).toFixed(1)}%`;

  /* A chart in whose tools the reader chooses what it shows. */
  function choosing(figure, label, options, first, spec) {
    const chart = new Chart(figure, spec(first));
    if (options.length > 1) chart.choose(label, options, first, (place) => chart.set(spec(place)));
    return chart;
  }

  function coefficients(figure) {
    const { names, deviations, lines, level } = data.coefficients;
    const scaled = deviations.every((value) => typeof value === "number");
    const others = [...new Set(lines.map((line) => line.name))].filter((name) => !names.includes(name));
    const options = [...(scaled ? ["coefficients, per standard deviation"] : []), "coefficients", ...others];
    const spec = (place) => {
      const single = others[place - options.length + others.length];
      const shown = single ? [single] : names;
      const factor = (name) => (place === 0 && scaled && !single ? deviations[names.indexOf(name)] : 1);
      const series = parts.map((part) => {
        const mine = lines.filter((line) => line.component === part && shown.includes(line.name));
        const of = (key) => mine.map((line) => (line[key] === null ? null : line[key] * factor(line.name)));
        return { kind: "spans", name: called(part), part, x: of("estimate"), xlow: of("low"), xhigh: of("high"),
          y: mine.map((line) => shown.indexOf(line.name) + ((part + 0.5) / data.k - 0.5) * 0.7),
          says: (i) => [`${mine[i].name}, ${called(part)}`, `estimate ${number(of("estimate")[i])}`,
            ...(mine[i].low === null ? [] : [`${percent(level)} from ${number(of("low")[i])} to ${number(of("high")[i])}`])] };
      });
      const rows = lines.filter((line) => shown.includes(line.name)).map((line) => [line.name, called(line.component),
        ...["estimate", "low", "high"].map((key) => (line[key] === null ? "" : line[key] * factor(line.name)))]);
      return { x: { label: single || options[place] }, y: { label: "", names: shown }, thick: data.k,
        series: [...(single ? [] : [{ kind: "rule", at: "x", value: 0 }]), ...series],
        table: () => ({ head: ["parameter", "component", "estimate", "from", "to"], rows }) };
    };
    choosing(figure, "show", options, 0, spec);
  }

  function lines(figure) {
    const { axes, first } = data.lines;
    const { y, shares, rows, labels, target } = data.points;
    const spec = (place) => {
      const { name, x, grid, means } = axes[place];
      const says = (i) => [`row ${number(rows[i])}${labels ? ` of ${labels[i]}` : ""}`, `${name} ${number(x[i])}`,
        `${target} ${number(y[i])}`, ...parts.map((part) => `${called(part)}: ${percent(shares[i][part])}`).slice(0, 6)];
      return { x: { label: name }, y: { label: target }, tall: 460, series: [
        { kind: "points", name: "rows", x, y, shares, says },
        ...parts.map((part) => ({ kind: "line", name: `${called(part)}, weight ${number(Number(data.weights[part].toFixed(3)))}`,
          part, halo: true, x: grid, y: means[part], says: (i) => [`line of ${called(part)}`, `${name} ${number(grid[i])}`,
            `mean ${number(means[part][i])}`] })),
      ], table: () => ({ head: ["row", name, target, ...parts.map(called)],
        rows: rows.map((row, i) => [number(row), x[i], y[i], ...shares[i]]) }) };
    };
    choosing(figure, "along", axes.map((axis) => axis.name), first, spec);
  }

  function stacked(edges, counts, unit) {
    const floor = edges.slice(1).map(() => 0);
    return parts.map((part) => {
      const y0 = floor.slice();
      counts[part].forEach((value, place) => { floor[place] += value; });
      return { kind: "bars", name: called(part), part, x0: edges.slice(0, -1), x1: edges.slice(1), y0, y1: floor.slice(),
        says: (i) => [called(part), `probability ${number(edges[i])} to ${number(edges[i + 1])}`,
          `${number(counts[part][i])} ${unit}s`] };
    });
  }
  function side(edges, counts, unit) {
    const bin = edges[1] - edges[0];
    return parts.map((part) => ({ kind: "bars", name: called(part), part,
      x0: edges.slice(0, -1).map((edge) => edge + (bin * part) / data.k),
      x1: edges.slice(0, -1).map((edge) => edge + (bin * (part + 1)) / data.k),
      y0: counts[part].map(() => 0), y1: counts[part],
      says: (i) => [called(part), `probability ${number(edges[i])} to ${number(edges[i + 1])}`,
        `${number(counts[part][i])} ${unit}s`] }));
  }
  const binned = (edges, counts, unit) => () => ({ head: ["probability from", "to", ...parts.map((part) => `${unit}s, ${called(part)}`)],
    rows: edges.slice(1).map((edge, i) => [edges[i], edge, ...counts.map((column) => column[i])]) });

  function histogram(figure) {
    const { edges, counts, unit } = data.certainty;
    new Chart(figure, { x: { label: "responsibility", fixed: [0, 1] }, y: { label: `${unit}s`, zero: true, whole: true },
      series: side(edges, counts, unit), table: binned(edges, counts, unit) });
  }

  function rootogram(figure) {
    const { edges, counts } = data.rootogram;
    const { unit } = data.certainty;
    const series = side(edges, counts, unit).map((bars) => ({ ...bars, y1: bars.y1.map(Math.sqrt) }));
    new Chart(figure, { x: { label: "posterior probability", fixed: [0, 1] },
      y: { label: `square root of ${unit}s`, zero: true }, series, table: binned(edges, counts, unit) });
  }

  function sorted(figure) {
    const { place, sorted: most, unit } = data.certainty;
    new Chart(figure, { x: { label: `share of ${unit}s`, fixed: [0, 1] },
      y: { label: "largest responsibility", fixed: [1 / Math.max(2, data.k), 1.02] },
      series: [{ kind: "line", name: "largest responsibility", part: 0, x: place, y: most,
        says: (i) => [`${percent(place[i])} of ${unit}s`, `have at least ${number(most[i])}`] }],
      table: Views.table([`share of ${unit}s`, "largest responsibility"], [place, most]) });
  }

  function residuals(figure, part) {
    const { rows, fitted, residual } = data.residuals[part];
    new Chart(figure, { x: { label: "fitted value" }, y: { label: "residual" }, empty: "no row is likeliest here",
      series: [{ kind: "rule", at: "y", value: 0 }, { kind: "points", name: called(part), part, x: fitted, y: residual,
        says: (i) => [`row ${number(rows[i])}`, `fitted ${number(fitted[i])}`, `residual ${number(residual[i])}`] }],
      table: Views.table(["row", "fitted", "residual"], [rows, fitted, residual]) });
  }

  function quantiles(figure, part) {
    const { expected, seen, low, high } = data.residuals[part];
    new Chart(figure, { x: { label: "quantile of the model's noise" }, y: { label: "residual / sigma" },
      empty: "too few rows for quantiles",
      series: [{ kind: "band", x: expected, low, high }, { kind: "rule", slope: true },
        { kind: "points", name: called(part), part, x: expected, y: seen,
          says: (i) => [`expected ${number(expected[i])}`, `seen ${number(seen[i])}`,
            `95% band from ${number(low[i])} to ${number(high[i])}`] }],
      table: Views.table(["expected", "seen", "band from", "band to"], [expected, seen, low, high]) });
  }

  function convergence(figure) {
    const { columns } = data.history;
    const axes = ["iteration", "rounds", "bytes"].filter((name) => name in columns);
    const skipped = ["iteration", "rounds", "asked", "answered", "floats_down", "floats_up", "bytes_down", "bytes_up", "bytes"];
    const names = Object.keys(columns).filter((name) => !skipped.includes(name));
    if (names.includes("log_likelihood")) names.splice(names.indexOf("log_likelihood") + 1, 0, "gap");
    const first = Math.max(0, names.indexOf("log_likelihood"));
    let [what, along] = [names[first], axes[0]];
    const chart = new Chart(figure, Views.progress(columns, what, along));
    const redo = () => chart.set(Views.progress(columns, what, along));
    if (axes.length > 1) chart.choose("against", axes.map(Views.word), 0, (place) => { along = axes[place]; redo(); });
    chart.choose("show", names.map((name) => (name === "gap" ? "gap to the best likelihood" : Views.word(name))), first,
      (place) => { what = names[place]; redo(); });
  }

  function choice(figure) {
    const { criterion, best, k, columns } = data.choice;
    const names = [criterion, ...Object.keys(columns).filter((name) => name !== criterion && name !== "n_parameters")];
    const spec = (place) => {
      const label = names[place] === "log_likelihood" ? "log-likelihood" : names[place].toUpperCase();
      const y = columns[names[place]];
      return { x: { label: "number of components", whole: true }, y: { label },
        series: [{ kind: "line", name: label, part: 0, x: k, y, dots: true, says: (i) => [
          `${k[i]} component${k[i] === 1 ? "" : "s"}${k[i] === best ? ", chosen" : ""}`, `${label} ${number(y[i])}`] },
        { kind: "points", name: "chosen", part: 1, x: [best], y: [y[k.indexOf(best)]],
          says: () => [`${best} components, chosen`, `${label} ${number(y[k.indexOf(best)])}`] }],
        table: Views.table(["components", label], [k, y]) };
    };
    choosing(figure, "show", names.map((name) => (name === "log_likelihood" ? "log-likelihood" : name.toUpperCase())), 0, spec);
  }

  function agents(figure) {
    const { counts } = data.agents;
    const series = parts.map((part) => ({ kind: "bars", name: called(part), part, x0: [part - 0.35], x1: [part + 0.35],
      y0: [0], y1: [counts[part]], says: () => [called(part), `${number(counts[part])} agents`] }));
    new Chart(figure, { x: { label: "likeliest component", names: parts.map((part) => String(part + 1)) },
      y: { label: "agents", zero: true, whole: true }, series,
      table: () => ({ head: ["component", "agents"], rows: parts.map((part) => [called(part), counts[part]]) }) });
  }

  function sure(figure) {
    const { edges, histogram: counts } = data.agents;
    new Chart(figure, { x: { label: "probability", fixed: [0, 1] }, y: { label: "agents", zero: true, whole: true },
      series: stacked(edges, counts, "agent"), table: binned(edges, counts, "agent") });
  }

  const draw = { coefficients, lines, histogram, rootogram, sorted, residuals, quantiles, convergence, choice, agents,
    "agents-sure": sure, bytes: (figure) => new Chart(figure, Views.traffic(data.rounds)),
    attendance: (figure) => new Chart(figure, Views.attendance(data.rounds)),
    seconds: (figure) => new Chart(figure, Views.durations(data.rounds)) };

  Charts.themes(document.getElementById("theme"));
  for (const figure of document.querySelectorAll("figure[data-view]")) {
    const { view } = figure.dataset;
    const [, name, part] = /^(.*?)(?:-(\d+))?$/.exec(view);
    draw[name](figure, Number(part));
  }
})();
