"use strict";

/* Charts as SVG. Texts become text nodes and never markup, so that names in the data stay names. */
const Charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
  const COLOURS = 8;
  const everyone = new Set();
  let count = 0;

  function build(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") element.addEventListener(name, value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }
  const node = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
  const shape = (tag, attributes = {}, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

  const finite = (value) => typeof value === "number" && Number.isFinite(value);
  const colour = (part) => `var(--c${part % COLOURS})`;

  function number(value) {
    if (!finite(value)) return "–";
    if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en");
    const size = Math.abs(value);
    if (size >= 1e7 || (size > 0 && size < 1e-3)) return value.toExponential(3);
    return size >= 1e4 ? value.toLocaleString("en", { maximumFractionDigits: 2 }) : String(Number(value.toPrecision(5)));
  }
  function bytes(value) {
    if (!finite(value)) return "–";
    const units = ["B", "kB", "MB", "GB", "TB"];
    let place = 0;
    while (Math.abs(value) >= 1000 && place < units.length - 1) { value /= 1000; place += 1; }
    return `${place ? Number(value.toPrecision(3)) : Math.round(value)} ${units[place]}`;
  }
  const FORMATS = { number, bytes };

  /* The components' colours as red, green, blue, in the theme that is on. */
  function palette() {
    const probe = node("span");
    document.body.append(probe);
    const found = Array.from({ length: COLOURS }, (_, part) => {
      probe.style.color = colour(part);
      return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
    });
    probe.remove();
    return found;
  }
  function blended(shares, colours) {
    const mixed = [0, 1, 2].map((channel) =>
      Math.round(shares.reduce((sum, share, part) => sum + share * colours[part % COLOURS][channel], 0)));
    return `rgb(${mixed.join(",")})`;
  }

  /* From numbers to places: linear, or logarithmic. */
  function scale(domain, range, log) {
    const into = log ? Math.log10 : (value) => value;
    const back = log ? (value) => 10 ** value : (value) => value;
    const [low, high] = domain.map(into);
    const factor = (range[1] - range[0]) / (high - low || 1);
    return {
      at: (value) => range[0] + (into(value) - low) * factor,
      value: (place) => back(low + (place - range[0]) / factor),
      shifted: (centre, by) => domain.map((end) => back(into(centre) + (into(end) - into(centre)) * by)),
    };
  }
  function ticks(domain, most, log, whole) {
    const [low, high] = domain;
    if (log && Math.log10(high / low) >= 1.5) {
      const first = Math.ceil(Math.log10(low) - 1e-9);
      const last = Math.floor(Math.log10(high) + 1e-9);
      const step = Math.max(1, Math.ceil((last - first + 1) / most));
      return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => 10 ** (first + i * step));
    }
    const rough = (high - low) / Math.max(most, 1) || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const fits = [10, 5, 2, 1, 0.5, 0.2, 0.1].map((factor) => factor * power).filter((one) => !whole || one >= 1);
    const ends = (one) => [Math.ceil(low / one - 1e-9), Math.floor(high / one + 1e-9)];
    const many = (one) => ends(one)[1] - ends(one)[0] + 1;
    const step = fits.find((one) => many(one) >= Math.max(3, Math.min(most, 9) * 0.55)) || (whole ? 1 : fits.at(-1));
    const [first, last] = ends(step);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  }
  /* The texts of ticks, with as many digits as tell them apart. */
  function tickTexts(values, format) {
    const apart = (texts) => new Set(texts).size === texts.length;
    const precise = (digits) => values.map((value) => String(Number(value.toPrecision(digits))));
    const digits = [6, 7, 8, 9, 10, 11, 12].find((one) => apart(precise(one))) || 12;
    const texts = values.map(format);
    return apart(texts) ? texts : precise(digits);
  }
  function short(text, most) {
    return text.length <= most ? text : `${text.slice(0, Math.max(1, most - 1))}…`;
  }

  /* What a series says of its extent, and what can be pointed at. */
  function extent(series, axis) {
    const names = axis === "x" ? ["x", "x0", "x1", "xlow", "xhigh"] : ["y", "y0", "y1", "low", "high"];
    return names.flatMap((name) => (series[name] || []).filter(finite));
  }
  function reach(values, axis) {
    if (axis.names) return [-0.5, axis.names.length - 0.5];
    if (axis.fixed) return axis.fixed;
    const usable = axis.log ? values.filter((value) => value > 0) : values;
    if (!usable.length) return axis.log ? [1, 10] : [0, 1];
    let low = Infinity;
    let high = -Infinity;
    for (const value of usable) { low = Math.min(low, value); high = Math.max(high, value); }
    if (axis.log) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.04, high * (high / low) ** 0.04];
    if (axis.zero) { low = Math.min(low, 0); high = Math.max(high, 0); }
    const room = (high - low) * 0.04 || Math.abs(high) * 0.1 || 1;
    return [axis.zero && low === 0 ? 0 : low - room, high + room];
  }

  class Chart {
    constructor(figure, spec) {
      this.figure = figure;
      this.hidden = new Set();
      this.view = null;
      this.pointer = null;
      this.dragging = false;
      this.chosen = -1;
      count += 1;
      this.clip = `clip-${count}`;
      this.plot = node("div", { class: "plot" });
      this.tip = node("div", { class: "tip", role: "status", hidden: "" });
      this.legend = node("ul", { class: "legend" });
      this.table = node("details", { toggle: () => this.fill() }, node("summary", {}, "The numbers as a table"),
        node("div", { class: "wide tall", tabindex: "0" }));
      this.tools = node("div", { class: "tools" });
      const zoom = node("span", { class: "zoom" },
        this.button("−", "Zoom out", () => this.zoom(1.6)), this.button("+", "Zoom in", () => this.zoom(1 / 1.6)),
        this.button("all", "Show everything", () => this.reset()));
      figure.append(zoom, this.tools, this.plot, this.legend, this.table);
      this.set(spec);
      new ResizeObserver(() => { if (this.plot.clientWidth !== this.width) this.draw(); }).observe(this.plot);
      everyone.add(this);
    }

    button(text, label, action) {
      return node("button", { type: "button", "aria-label": label, title: label, click: action }, text);
    }

    /* A choice that the reader has; texts is one per option. */
    choose(label, texts, chosen, action) {
      const select = node("select", { change: () => action(Number(select.value)) },
        ...texts.map((text, place) => node("option", { value: place, selected: place === chosen ? "" : null }, text)));
      this.tools.prepend(node("label", {}, label, select));
      return select;
    }

    set(spec, keep = false) {
      this.spec = spec;
      if (!keep) this.view = null;
      if (!this.dragging) this.draw();
      this.label();
      if (this.table.open) this.fill();
    }

    shown() { return this.spec.series.filter((one) => !this.hidden.has(one.name)); }

    whole() {
      const of = (axis) => reach(this.shown().flatMap((one) => extent(one, axis)), this.spec[axis]);
      return { x: of("x"), y: of("y") };
    }

    reset() { this.view = null; this.draw(); }

    zoom(by, at = null) {
      const place = at || { x: (this.box.left + this.box.right) / 2, y: (this.box.top + this.box.bottom) / 2 };
      const view = {};
      for (const axis of ["x", "y"]) {
        const fixed = this.spec[axis].names;
        view[axis] = fixed ? this.now[axis] : this.scales[axis].shifted(this.scales[axis].value(place[axis]), by);
      }
      this.view = view;
      this.draw();
    }

    draw() {
      const { spec } = this;
      this.width = this.plot.clientWidth;
      if (!this.width) return;
      this.now = this.view || this.whole();
      const width = this.width;
      const names = spec.y.names;
      const height = names ? 62 + names.length * Math.max(34, (spec.thick || 1) * 14)
        : Math.round(Math.min(spec.tall || 380, Math.max(230, width * 0.58)));
      const yFormat = FORMATS[spec.y.format || "number"];
      const letters = Math.floor((width * 0.36) / 6.8);
      const yTicks = names ? names.map((_, place) => place) : ticks(this.now.y, height / 55, spec.y.log, spec.y.whole);
      const yTexts = names ? names.map((name) => short(name, letters)) : tickTexts(yTicks, yFormat);
      const left = 12 + Math.max(16, ...yTexts.map((text) => text.length * 6.8));
      this.box = { left, right: width - 10, top: 26, bottom: height - 42 };
      const { box } = this;
      const yRange = names ? [box.top, box.bottom] : [box.bottom, box.top];
      this.scales = { x: scale(this.now.x, [box.left, box.right], spec.x.log), y: scale(this.now.y, yRange, spec.y.log) };
      const title = this.figure.querySelector("h3");
      const said = [title ? title.textContent : "", `${spec.y.label} against ${spec.x.label}`,
        spec.series.map((one) => one.name).filter(Boolean).join(", ")].filter(Boolean).join(". ");
      const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "aria-label":
        `${said}. Arrow keys step through the values, + and - zoom, 0 shows everything.` });
      svg.append(shape("title", {}, title ? title.textContent : spec.y.label));
      svg.append(shape("defs", {}, shape("clipPath", { id: this.clip }, shape("rect", { x: box.left, y: box.top,
        width: Math.max(0, box.right - box.left), height: Math.max(0, box.bottom - box.top) }))));
      const axes = this.axes(yTicks, yTexts);
      svg.append(...axes);
      const inside = shape("g", { "clip-path": `url(#${this.clip})` });
      svg.append(inside);
      this.items = [];
      const colours = palette();
      for (const one of this.shown()) this[one.kind](inside, one, colours);
      if (!this.items.length) {
        axes.forEach((one) => one.remove());
        svg.append(shape("text", { class: "empty", x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2,
          "text-anchor": "middle" }, spec.empty || "nothing to draw"));
      }
      this.mark = shape("circle", { class: "mark", r: 7, visibility: "hidden" });
      svg.append(this.mark);
      this.listen(svg);
      this.tip.hidden = true;
      this.chosen = -1;
      this.plot.replaceChildren(svg, this.tip);
      if (this.pointer) this.point(this.nearest(this.pointer));
    }

    axes(yTicks, yTexts) {
      const { spec, box, scales } = this;
      const grid = shape("g", { class: "grid" });
      const texts = shape("g", { "aria-hidden": "true" });
      const xFormat = FORMATS[spec.x.format || "number"];
      const across = box.right - box.left;
      const xTicks = spec.x.names ? spec.x.names.map((_, place) => place)
        : ticks(this.now.x, Math.max(2, across / 85), spec.x.log, spec.x.whole);
      const letters = spec.x.names ? Math.floor(across / spec.x.names.length / 7) : 99;
      const xTexts = spec.x.names ? spec.x.names.map((name) => short(name, letters)) : tickTexts(xTicks, xFormat);
      xTicks.forEach((value, number) => {
        const place = scales.x.at(value);
        if (!spec.x.names) grid.append(shape("line", { x1: place, x2: place, y1: box.top, y2: box.bottom }));
        const text = xTexts[number];
        const end = place > box.right - text.length * 3.4 ? "end" : "middle";
        texts.append(shape("text", { x: end === "end" ? box.right : place, y: box.bottom + 17, "text-anchor": end }, text));
      });
      yTicks.forEach((value, place) => {
        const at = scales.y.at(value);
        if (!spec.y.names) grid.append(shape("line", { x1: box.left, x2: box.right, y1: at, y2: at }));
        const label = shape("text", { x: box.left - 7, y: at + 4, "text-anchor": "end" }, yTexts[place]);
        if (spec.y.names) label.append(shape("title", {}, spec.y.names[value]));
        texts.append(label);
      });
      texts.append(shape("text", { class: "axis-name", x: (box.left + box.right) / 2, y: box.bottom + 36,
        "text-anchor": "middle" }, short(spec.x.label, Math.floor(this.width / 7))));
      texts.append(shape("text", { class: "axis-name", x: 4, y: 14 }, short(spec.y.label, Math.floor(this.width / 7))));
      return [grid, texts, shape("path", { class: "frame", d: `M${box.left} ${box.top}V${box.bottom}H${box.right}` })];
    }

    /* The kinds of series. */
    points(into, one, colours) {
      const { x, y } = this.scales;
      const size = one.x.length > 600 ? 2.4 : 3.8;
      const group = shape("g", { "fill-opacity": one.x.length > 600 ? 0.7 : 0.85 });
      one.x.forEach((value, place) => {
        if (!this.usable(value, one.y[place])) return;
        const cx = x.at(value);
        const cy = y.at(one.y[place]);
        const fill = one.shares ? blended(one.shares[place], colours) : colour(one.part || 0);
        group.append(shape("circle", { cx: cx.toFixed(1), cy: cy.toFixed(1), r: size, fill }));
        this.items.push({ cx, cy, says: () => one.says(place) });
      });
      into.append(group);
    }
    line(into, one) {
      const { x, y } = this.scales;
      const kept = one.x.map((_, place) => place).filter((place) => this.usable(one.x[place], one.y[place]));
      if (!kept.length) return;
      const places = kept.map((place) => [x.at(one.x[place]), y.at(one.y[place])]);
      const d = places.map(([cx, cy], i) => `${i && kept[i - 1] === kept[i] - 1 ? "L" : "M"}${cx.toFixed(1)} ${cy.toFixed(1)}`);
      if (one.halo) into.append(shape("path", { class: "halo", d: d.join("") }));
      into.append(shape("path", { d: d.join(""), fill: "none", stroke: colour(one.part || 0), "stroke-width": 2.2,
        "stroke-linejoin": "round", "stroke-dasharray": DASHES[(one.part || 0) % DASHES.length] || null }));
      kept.forEach((place, i) => {
        const [cx, cy] = places[i];
        if (one.dots && kept.length <= 60) into.append(shape("circle", { cx, cy, r: 3.2, fill: colour(one.part || 0) }));
        if (one.says) this.items.push({ cx, cy, says: () => one.says(place) });
      });
    }
    bars(into, one) {
      const { x, y } = this.scales;
      one.x0.forEach((value, place) => {
        const [left, right] = [x.at(value), x.at(one.x1[place])];
        const [low, high] = [y.at(one.y0[place]), y.at(one.y1[place])];
        into.append(shape("rect", { x: left, y: high, width: Math.max(0.5, right - left - 0.6),
          height: Math.max(0, low - high), fill: colour(one.part || 0) }));
        const area = [left, right, Math.min(low, high), Math.max(low, high)];
        if (one.y1[place] !== one.y0[place]) {
          this.items.push({ cx: (left + right) / 2, cy: high, area, says: () => one.says(place) });
        }
      });
    }
    spans(into, one) {
      const { x, y } = this.scales;
      one.x.forEach((value, place) => {
        if (!finite(value)) return;
        const [cx, cy] = [x.at(value), y.at(one.y[place])];
        if (finite(one.xlow[place]) && finite(one.xhigh[place])) {
          const [from, to] = [x.at(one.xlow[place]), x.at(one.xhigh[place])];
          into.append(shape("path", { d: `M${from} ${cy}H${to}M${from} ${cy - 4}V${cy + 4}M${to} ${cy - 4}V${cy + 4}`,
            stroke: colour(one.part || 0), "stroke-width": 2, fill: "none" }));
        }
        into.append(shape("circle", { cx, cy, r: 4, fill: colour(one.part || 0) }));
        this.items.push({ cx, cy, says: () => one.says(place) });
      });
    }
    band(into, one) {
      const { x, y } = this.scales;
      const kept = one.x.map((_, place) => place).filter((place) => finite(one.low[place]) && finite(one.high[place]));
      const there = kept.map((place) => `${x.at(one.x[place]).toFixed(1)} ${y.at(one.high[place]).toFixed(1)}`);
      const back = kept.map((place) => `${x.at(one.x[place]).toFixed(1)} ${y.at(one.low[place]).toFixed(1)}`).reverse();
      if (kept.length) into.append(shape("path", { class: "band", d: `M${there.concat(back).join("L")}Z` }));
    }
    rule(into, one) {
      const { x, y } = this.scales;
      const [left, right] = this.now.x;
      const [bottom, top] = this.now.y;
      const ends = one.slope ? [[left, left], [right, right]] : one.at === "x"
        ? [[one.value, bottom], [one.value, top]] : [[left, one.value], [right, one.value]];
      const d = ends.map(([a, b]) => `${x.at(a).toFixed(1)} ${y.at(b).toFixed(1)}`).join("L");
      into.append(shape("path", { class: "rule", d: `M${d}` }));
    }
    usable(a, b) {
      return finite(a) && finite(b) && (!this.spec.x.log || a > 0) && (!this.spec.y.log || b > 0);
    }

    /* Pointing, stepping and zooming. */
    listen(svg) {
      const place = (event) => {
        const box = svg.getBoundingClientRect();
        const factor = this.width / (box.width || 1);
        return { x: (event.clientX - box.left) * factor, y: (event.clientY - box.top) * factor };
      };
      let from = null;
      let brush = null;
      const clear = () => { if (brush) brush.remove(); brush = null; from = null; this.dragging = false; };
      svg.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        from = place(event);
        this.dragging = true;
        if (svg.setPointerCapture) svg.setPointerCapture(event.pointerId);
      });
      svg.addEventListener("pointermove", (event) => {
        const at = place(event);
        if (!from) { this.pointer = at; this.point(this.nearest(at)); return; }
        const area = this.area(from, at);
        if (!brush && area.width < 6 && area.height < 6) return;
        if (!brush) { brush = shape("rect", { class: "brush" }); svg.append(brush); }
        this.tip.hidden = true;
        for (const [name, value] of Object.entries(area)) brush.setAttribute(name, value);
      });
      svg.addEventListener("pointerup", (event) => {
        const area = from && brush ? this.area(from, place(event)) : null;
        const tapped = from && !brush ? place(event) : null;
        clear();
        if (area) this.into(area);
        if (tapped) this.point(this.nearest(tapped));
      });
      svg.addEventListener("pointercancel", clear);
      svg.addEventListener("pointerleave", () => { this.pointer = null; if (!from) this.point(-1); });
      svg.addEventListener("dblclick", () => this.reset());
      svg.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, place(event));
      }, { passive: false });
      svg.addEventListener("blur", () => this.point(-1));
      svg.addEventListener("keydown", (event) => this.key(event));
    }
    key(event) {
      const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
      if (event.key in steps && this.items.length) {
        const order = this.items.map((_, place) => place).sort((a, b) => this.items[a].cx - this.items[b].cx);
        const now = order.indexOf(this.chosen);
        this.point(order[now < 0 ? 0 : Math.min(order.length - 1, Math.max(0, now + steps[event.key]))]);
      } else if (event.key === "Escape") this.point(-1);
      else if (["+", "=", "-", "0"].includes(event.key)) {
        if (event.key === "0") this.reset();
        else this.zoom(event.key === "-" ? 1.6 : 1 / 1.6);
        this.plot.querySelector("svg").focus({ preventScroll: true });
      } else return;
      event.preventDefault();
    }
    area(a, b) {
      const { left, right, top, bottom } = this.box;
      const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
      const xs = [a.x, b.x].map((value) => clamp(value, left, right));
      const ys = [a.y, b.y].map((value) => clamp(value, top, bottom));
      return { x: Math.min(...xs), y: Math.min(...ys), width: Math.abs(xs[0] - xs[1]), height: Math.abs(ys[0] - ys[1]) };
    }
    into(area) {
      const view = { x: this.now.x, y: this.now.y };
      if (area.width > 8 && !this.spec.x.names) {
        view.x = [area.x, area.x + area.width].map(this.scales.x.value);
      }
      if (area.height > 8 && !this.spec.y.names) {
        view.y = [area.y + area.height, area.y].map(this.scales.y.value);
      }
      this.view = view;
      this.draw();
    }
    nearest(at) {
      const { left, right, top, bottom } = this.box;
      let best = -1;
      let least = 40 ** 2;
      this.items.forEach((item, place) => {
        if (item.area) {
          const [x0, x1, y0, y1] = item.area;
          if (at.x >= x0 && at.x <= x1 && at.y >= y0 && at.y <= y1) { best = place; least = -1; }
        }
        if (item.cx < left - 1 || item.cx > right + 1 || item.cy < top - 1 || item.cy > bottom + 1) return;
        const far = (item.cx - at.x) ** 2 + (item.cy - at.y) ** 2;
        if (far < least) { least = far; best = place; }
      });
      return best;
    }
    point(place) {
      this.chosen = place;
      this.mark.setAttribute("visibility", place < 0 ? "hidden" : "visible");
      if (place < 0) { this.tip.hidden = true; return; }
      const { cx, cy, says } = this.items[place];
      this.mark.setAttribute("cx", cx);
      this.mark.setAttribute("cy", cy);
      this.tip.replaceChildren(...says().map((text) => node("div", {}, text)));
      this.tip.hidden = false;
      const factor = this.plot.clientWidth / this.width;
      const [x, y] = [cx * factor, cy * factor];
      const side = Math.min(Math.max(0, x + 12), Math.max(0, this.plot.clientWidth - this.tip.offsetWidth));
      const onLeft = x + 12 + this.tip.offsetWidth > this.plot.clientWidth && x - 12 - this.tip.offsetWidth > 0;
      this.tip.style.left = `${onLeft ? x - 12 - this.tip.offsetWidth : side}px`;
      this.tip.style.top = `${y - this.tip.offsetHeight - 12 > -20 ? y - this.tip.offsetHeight - 12 : y + 14}px`;
    }

    /* Beside the picture. */
    label() {
      const named = this.spec.series.filter((one) => one.name && ["points", "line", "bars", "spans"].includes(one.kind));
      const seen = named.filter((one, place) => named.findIndex((other) => other.name === one.name) === place);
      this.legend.replaceChildren(...(seen.length < 2 && !this.spec.legend ? [] : seen).map((one) => {
        const sign = shape("svg", { width: 26, height: 12, "aria-hidden": "true" });
        if (one.kind === "line") {
          sign.append(shape("line", { x1: 1, x2: 25, y1: 6, y2: 6, stroke: colour(one.part || 0), "stroke-width": 2.4,
            "stroke-dasharray": DASHES[(one.part || 0) % DASHES.length] || null }));
        } else if (one.kind === "points" && one.shares) {
          sign.append(...[0, 1].map((part) => shape("circle", { cx: 8 + 9 * part, cy: 6, r: 4, fill: colour(part) })));
        } else sign.append(shape("circle", { cx: 13, cy: 6, r: 4.5, fill: colour(one.part || 0) }));
        const toggle = node("button", { type: "button", "aria-pressed": String(!this.hidden.has(one.name)), click: () => {
          if (!this.hidden.delete(one.name)) this.hidden.add(one.name);
          toggle.setAttribute("aria-pressed", String(!this.hidden.has(one.name)));
          this.draw();
        } }, sign, one.name);
        return node("li", {}, toggle);
      }));
    }
    fill() {
      if (!this.table.open) return;
      const { head, rows } = this.spec.table();
      const cell = (value) => (typeof value === "string" ? value : number(value));
      const line = (values, tag) => node("tr", {}, ...values.map((value, place) =>
        node(tag === "th" || place === 0 ? "th" : "td", { scope: tag === "th" ? "col" : place === 0 ? "row" : null }, cell(value))));
      const title = this.figure.querySelector("h3");
      this.table.lastElementChild.replaceChildren(node("table", {}, node("caption", {}, node("span", {}, title ? title.textContent : "")),
        node("thead", {}, line(head, "th")), node("tbody", {}, ...rows.map((values) => line(values, "td")))));
    }
  }

  const redraw = () => everyone.forEach((chart) => chart.draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(event, () => { document.body.classList.toggle("printing", printing); redraw(); });
  }

  /* The switch between themes: as the system has it, light, dark. */
  function themes(button) {
    const order = ["automatic", "light", "dark"];
    let place = 0;
    button.addEventListener("click", () => {
      place = (place + 1) % order.length;
      if (place) document.documentElement.dataset.theme = order[place];
      else delete document.documentElement.dataset.theme;
      button.textContent = `Theme: ${order[place]}`;
      redraw();
    });
  }

  return { Chart, node, number, bytes, finite, themes };
})();
