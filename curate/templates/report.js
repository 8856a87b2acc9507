// Draws the page from the JSON block. Text of unknown origin is only ever set through textContent.
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const views = [];
  const updates = [];

  function element(name, text, attributes) {
    const made = document.createElement(name);
    if (text !== undefined && text !== null) made.textContent = text;
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    return made;
  }

  function short(count) {
    for (const [size, unit] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]]) {
      if (count >= size) return (count / size).toFixed(count >= 100 * size ? 0 : 1) + unit;
    }
    return String(Math.round(count));
  }

  function show(value, kind) {
    if (value === null || value === undefined) return "–";
    if (kind === "n") return Math.round(value).toLocaleString("en-US");
    if (kind === "share") return (100 * value).toFixed(1) + "%";
    if (kind === "tokens") return short(value);
    if (kind === "x") return value.toFixed(2);
    return String(value);
  }

  const at = (list, stop) => list[list.length > 1 ? stop : 0];

  function objects(panel, rows) {
    return rows.map((row) => Object.fromEntries(panel.columns.map((column, i) => [column[0], row[i]])));
  }

  function table(panel) {
    const shown = panel.columns.map((column, i) => [...column, i]).filter((column) => column[2] !== "hide");
    const made = element("table");
    const head = made.createTHead().insertRow();
    for (const [, heading, kind] of shown) head.append(element("th", heading, { scope: "col", class: kind }));
    const body = made.createTBody();
    function fill(rows, stop) {
      body.replaceChildren();
      for (const row of rows) {
        const line = body.insertRow();
        shown.forEach(([field, , kind, i], column) => {
          line.append(element(column ? "td" : "th", show(row[i], kind), { class: kind, "data-field": field, ...(column ? {} : { scope: "row" }) }));
        });
        if (shown[0][0] === "bound" && row[0] === data.stops[stop]) line.className = "here";
      }
    }
    return [made, fill];
  }

  function draw(panel, host, stop) {
    const spec = { ...panel.chart, datasets: { rows: objects(panel, at(panel.tables, stop)), bound: [{ bound: data.stops[stop] }] } };
    const options = { ast: true, actions: false, renderer: "svg", config: data.theme, tooltip: { theme: "custom" } };
    return window.vegaEmbed(host, spec, options).then((result) => {
      views.push(result.view);
      let current = stop;
      updates.push((next) => {
        if (next === current) return;
        current = next;
        if (panel.tables.length > 1) result.view.data("rows", objects(panel, at(panel.tables, next)));
        if (panel.ruled) result.view.data("bound", [{ bound: data.stops[next] }]);
        result.view.runAsync();
      });
    });
  }

  function build(panel, stop, drawn) {
    const figure = element("figure", null, { id: panel.key });
    const caption = element("figcaption");
    const title = element("h3", at(panel.titles, stop));
    caption.append(title);
    figure.append(caption);
    if (panel.chart) {
      const host = element("div", null, { class: "chart" });
      figure.append(host);
      drawn.push(() => draw(panel, host, stop));
    }
    if (panel.note) figure.append(element("p", panel.note, { class: "note" }));
    let fill = null;
    if (panel.columns.length) {
      const details = element("details");
      const scroll = element("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers: " + panel.about });
      let made;
      [made, fill] = table(panel);
      details.append(element("summary", "Numbers of this chart"), scroll);
      details.open = !panel.chart;
      scroll.append(made);
      figure.append(details);
      fill(at(panel.tables, stop), stop);
    }
    updates.push((next) => {
      if (panel.titles.length > 1) title.textContent = at(panel.titles, next);
      if (fill && (panel.tables.length > 1 || panel.columns[0][0] === "bound")) fill(at(panel.tables, next), next);
    });
    return figure;
  }

  function control(main) {
    if (!data.stops.length) return;
    main.append(document.getElementById("slider").content.cloneNode(true));
    const input = document.getElementById("stop");
    const output = document.getElementById("tokens");
    input.max = String(data.stops.length - 1);
    input.value = String(data.at);
    input.disabled = data.stops.length < 2;
    const picks = data.picks.map((bound) => {
      const button = element("button", show(bound, "n"), { type: "button" });
      button.addEventListener("click", () => {
        input.value = String(data.stops.indexOf(bound));
        move();
      });
      document.getElementById("picks").append(button);
      return [bound, button];
    });
    function move() {
      const stop = Number(input.value);
      const said = show(data.stops[stop], "n") + " tokens";
      output.textContent = said;
      input.setAttribute("aria-valuetext", said);
      document.getElementById("now").textContent = data.now[stop];
      for (const [bound, button] of picks) button.setAttribute("aria-pressed", String(bound === data.stops[stop]));
      for (const update of updates) update(stop);
    }
    input.addEventListener("input", move);
    move();
  }

  function pairs(id, list) {
    const host = document.getElementById(id);
    for (const [term, text] of list) {
      const line = id === "figures" ? host.appendChild(element("div")) : host;
      line.append(element("dt", term), element("dd", text));
    }
  }

  document.title = data.title;
  for (const id of ["kicker", "headline", "caveat", "command"]) document.getElementById(id).textContent = data[id];
  pairs("figures", data.figures);
  pairs("facts", data.facts);
  const main = document.getElementById("main");
  const drawn = [];
  data.parts.forEach((part, number) => {
    const section = element("section", null, { "aria-labelledby": "part-" + number });
    const host = element("div", null, { class: part.panels.length > 1 ? "panels two" : "panels" });
    section.append(element("h2", part.name, { id: "part-" + number }), host);
    for (const panel of part.panels) host.append(build(panel, data.at, drawn));
    main.append(section);
    if (number === 0) control(main);
  });

  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
  });
  window.addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));

  // A chart that fails to draw takes nothing else with it: its table is shown instead.
  Promise.allSettled(drawn.map((start) => start())).then((results) => {
    const failed = results.filter((result) => result.status === "rejected");
    for (const result of failed) console.error(result.reason);
    if (failed.length) for (const one of document.querySelectorAll("details")) one.open = true;
    document.documentElement.dataset.drawn = failed.length ? "failed" : "yes";
  });
})();
