"use strict";

/* The pictures that a page of a fit and a page of a running fit have in common: iterations and rounds. */
const Views = (() => {
  const { number, bytes, finite } = Charts;
  const WORDS = { log_likelihood: "log-likelihood", gradient_norm: "gradient norm", objective: "objective",
    iteration: "iteration", rounds: "rounds so far", bytes: "bytes so far", error: "relative error" };
  const word = (name) => WORDS[name] || name.replaceAll("_", " ");

  function table(names, columns) {
    const rows = columns[0].map((_, place) => columns.map((column) => column[place]));
    return () => ({ head: names, rows });
  }

  /* One quantity of the history against another; the gap to the best likelihood on a logarithmic axis. */
  function progress(columns, what, along) {
    const x = columns[along];
    const gap = what === "gap";
    const source = gap ? columns.log_likelihood : columns[what];
    const best = gap ? Math.max(...source.filter(finite)) : 0;
    const y = gap ? source.map((value) => (finite(value) && value < best ? best - value : null)) : source;
    const label = gap ? "log-likelihood below its best" : word(what);
    const log = gap || what === "gradient_norm" || what === "error";
    const format = along === "bytes" ? "bytes" : "number";
    const says = (place) => [`${word(along)} ${format === "bytes" ? bytes(x[place]) : number(x[place])}`,
      `${label} ${number(y[place])}`];
    return {
      x: { label: word(along), whole: along === "iteration" || along === "rounds", format },
      y: { label, log },
      series: [{ kind: "line", name: label, x, y, part: 0, dots: true, says }],
      empty: gap ? "every iteration is at the best likelihood" : "no iteration yet",
      table: table([word(along), label], [x, y]),
    };
  }

  /* What every round sent, in the colour of what it asked for. */
  function traffic(rounds) {
    const kinds = [...new Set(rounds.query)];
    const series = kinds.map((kind, part) => {
      const mine = rounds.round.map((_, place) => place).filter((place) => rounds.query[place] === kind);
      return { kind: "bars", name: kind, part, x0: mine.map((place) => rounds.round[place] - 0.5),
        x1: mine.map((place) => rounds.round[place] + 0.5), y0: mine.map(() => 0), y1: mine.map((place) => rounds.bytes[place]),
        says: (i) => [`round ${number(rounds.round[mine[i]])}: ${kind}`, `${bytes(rounds.bytes[mine[i]])} in this round`,
          `${bytes(rounds.cumulative[mine[i]])} until then`] };
    });
    return { x: { label: "round", whole: true }, y: { label: "bytes, all agents, both ways", format: "bytes", zero: true, whole: true },
      series, empty: "no round yet", legend: true,
      table: table(["round", "query", "bytes", "bytes so far"], [rounds.round, rounds.query, rounds.bytes, rounds.cumulative]) };
  }

  function attendance(rounds) {
    const series = ["asked", "answered", "late"].map((name, part) => ({ kind: "line", name, part, x: rounds.round,
      y: rounds[name], dots: true, halo: name === "answered",
      says: (place) => [`round ${number(rounds.round[place])}: ${rounds.query[place]}`, `${number(rounds.asked[place])} asked`,
        `${number(rounds.answered[place])} answered in time, ${number(rounds.late[place])} late`] }));
    const some = rounds.late.some((value) => value > 0) ? series : series.slice(0, 2);
    return { x: { label: "round", whole: true }, y: { label: "agents", zero: true, whole: true }, series: some,
      empty: "no round yet", table: table(["round", "query", "asked", "answered", "late"],
        [rounds.round, rounds.query, rounds.asked, rounds.answered, rounds.late]) };
  }

  function durations(rounds) {
    const says = (place) => [`round ${number(rounds.round[place])}: ${rounds.query[place]}`,
      `${number(rounds.seconds[place])} seconds`];
    return { x: { label: "round", whole: true }, y: { label: "seconds", zero: true },
      series: [{ kind: "line", name: "seconds", part: 0, x: rounds.round, y: rounds.seconds, dots: true, says }],
      empty: "no round yet", table: table(["round", "query", "seconds"], [rounds.round, rounds.query, rounds.seconds]) };
  }

  return { progress, traffic, attendance, durations, table, word };
})();
