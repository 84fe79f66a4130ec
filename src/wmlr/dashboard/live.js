"use strict";

(() => {
  const { Chart, node, number, bytes } = Charts;
  const { every } = JSON.parse(document.getElementById("data").textContent);
  const WORDS = { waiting: "waiting for the fit to begin", running: "running", done: "done", failed: "failed" };
  const LINES = 12;
  const page = crypto.getRandomValues(new Uint32Array(3)).join("-");
  const charts = new Map();
  let failures = 0;
  let last = null;

  const views = {
    likelihood: (state) => Views.progress(filled(state.history.columns), "log_likelihood", "iteration"),
    error: (state) => Views.progress(filled(state.history.columns), "error", "iteration"),
    attendance: (state) => Views.attendance(state.rounds),
    bytes: (state) => Views.traffic(state.rounds),
    seconds: (state) => Views.durations(state.rounds),
  };
  const filled = (columns) => ({ iteration: [], log_likelihood: [], error: [], ...columns });

  function facts(state) {
    const { rounds, history } = state;
    const ends = (list) => (list && list.length ? list[list.length - 1] : null);
    const pairs = [["rounds", number(rounds.count)], ["iterations", number(Math.max(0, history.count - 1))],
      ["log-likelihood", number(ends(history.columns.log_likelihood))], ["agents", number(state.agents)],
      ["answered last", rounds.count ? `${number(ends(rounds.answered))} of ${number(ends(rounds.asked))}` : "–"],
      ["sent", bytes(ends(rounds.cumulative) || 0)], ["seconds", number(Number(state.seconds.toFixed(1)))]];
    if ("error" in history.columns) pairs.splice(3, 0, ["relative error", number(ends(history.columns.error))]);
    document.getElementById("facts").replaceChildren(...pairs.map(([name, value]) =>
      node("div", {}, node("dt", {}, name), node("dd", {}, value))));
  }

  function rounds({ rounds: held }) {
    const head = ["round", "query", "asked", "answered", "late", "bytes", "seconds"];
    const places = held.round.map((_, place) => place).slice(-LINES).reverse();
    const cells = (place) => [number(held.round[place]), held.query[place], number(held.asked[place]),
      number(held.answered[place]), number(held.late[place]), bytes(held.bytes[place]),
      held.seconds[place] === null ? "–" : held.seconds[place].toFixed(3)];
    document.getElementById("rounds").replaceChildren(
      node("thead", {}, node("tr", {}, ...head.map((name) => node("th", { scope: "col" }, name)))),
      node("tbody", {}, ...places.map((place) => node("tr", {}, ...cells(place).map((cell, i) =>
        node(i ? "td" : "th", { scope: i ? null : "row" }, cell))))));
  }

  function show(state) {
    const said = state.state === "failed" && state.reason ? `failed: ${state.reason}` : WORDS[state.state];
    const sign = document.getElementById("state");
    if (sign.textContent !== said) sign.textContent = said;
    document.getElementById("asking").textContent = state.asking && state.state === "running"
      ? `asking for ${state.asking.query}, ${state.asking.seconds.toFixed(1)} s so far` : "";
    facts(state);
    rounds(state);
    const mark = JSON.stringify([state.rounds.count, state.history.count]);
    if (mark !== last) {
      for (const [view, chart] of charts) chart.set(views[view](state), true);
      last = mark;
    }
  }

  async function follow() {
    let over = false;
    try {
      const answer = await fetch(`state.json?${page}`, { cache: "no-store", credentials: "omit" });
      const state = await answer.json();
      failures = 0;
      show(state);
      over = state.state === "done" || state.state === "failed";
    } catch {
      failures += 1;
      if (failures > 2) document.getElementById("state").textContent = "the run has ended, or its page is closed";
    }
    if (!over) setTimeout(follow, failures > 2 ? 5 * every : every);
  }

  Charts.themes(document.getElementById("theme"));
  const nothing = { rounds: { round: [], query: [], asked: [], answered: [], late: [], bytes: [], cumulative: [], seconds: [] },
    history: { columns: {} } };
  for (const figure of document.querySelectorAll("figure[data-view]")) {
    charts.set(figure.dataset.view, new Chart(figure, views[figure.dataset.view](nothing)));
  }
  follow();
})();
