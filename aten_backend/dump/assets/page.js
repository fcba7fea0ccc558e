"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byName = new Map(data.nodes.map((node, i) => [node.name, i]));
  const ofLine = data.lines.map(() => []);
  data.nodes.forEach((node, i) => { if (node.line >= 0) ofLine[node.line].push(i); });
  const ofStep = data.steps.map(step => step.nodes.map(name => byName.get(name)).filter(i => i !== undefined));
  const SVG = "http://www.w3.org/2000/svg";
  const pane = name => document.getElementById("pane-" + name);

  // ---- small helpers

  function element(parent, tag, attributes, text) {
    const svg = parent.namespaceURI === SVG || tag === "svg";
    const made = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }
  const shortFile = path => path.split("/").slice(-1)[0];
  const placeOf = line => line < 0 ? "" : shortFile(data.lines[line][0]) + ":" + data.lines[line][1];
  const bytesText = n => n >= 1e9 ? (n / 1e9).toFixed(2) + " GB" : n >= 1e6 ? (n / 1e6).toFixed(2) + " MB"
    : n >= 1e3 ? (n / 1e3).toFixed(1) + " kB" : n + " B";
  const timeText = us => us >= 1e3 ? (us / 1e3).toFixed(2) + " ms" : us.toFixed(us < 10 ? 1 : 0) + " µs";
  const titleOf = step => step.kind === "kernel" ? step.title.replace(/_[0-9a-f]{12}$/, "") : step.title;
  const reduced = matchMedia("(prefers-reduced-motion: reduce)").matches;

  function clickable(target, go) {
    target.setAttribute("tabindex", "0");
    target.addEventListener("keydown", event => { if (event.key === "Enter") go(event); });
    target.addEventListener("click", event => {
      if (event.target.closest("a") || dragged) return;
      event.stopPropagation();
      go(event);
    });
  }

  // ---- what each step cost in the run that was measured

  const costs = data.steps.map(() => ({ host: 0, device: 0, launches: 0 }));
  for (const [step, , length, kernels] of data.spans) {
    if (step === "wait") continue;
    costs[step].host += length;
    for (const [, took] of kernels) { costs[step].device += took; costs[step].launches += 1; }
  }

  // ---- the selection: nodes, the step and the kernel line that it came by

  let selection = { nodes: new Set(), step: -1, launch: 0, kernelLine: -1 };

  function lineOfStep(step, launch, nodes) {
    const launches = data.steps[step].launches;
    if (!launches.length) return -1;
    return launches[launch].origins.findIndex(origin => origin.some(name => nodes.has(byName.get(name))));
  }

  function select(nodes, step, launch, kernelLine) {
    const chosen = new Set(nodes);
    if (step === undefined) {
      const homes = [...chosen].map(i => data.nodes[i].step).filter(s => s >= 0);
      step = homes.length ? homes[0] : stepThatReads([...chosen]);
    }
    launch = launch || 0;
    if (step >= 0 && kernelLine === undefined) {
      const count = data.steps[step].launches.length;
      for (let i = 0; i < count && (kernelLine === undefined || kernelLine < 0); i++) {
        kernelLine = lineOfStep(step, i, chosen);
        if (kernelLine >= 0) launch = i;
      }
    }
    selection = { nodes: chosen, step, launch, kernelLine: kernelLine === undefined ? -1 : kernelLine };
    show();
  }

  // Views and what is recomputed belong to whichever step was written for them.
  function stepThatReads(nodes) {
    const names = new Set(nodes.map(i => data.nodes[i].name));
    return data.steps.findIndex(step => step.launches.some(
      launch => launch.origins.some(origin => origin.some(name => names.has(name)))));
  }
  const selectLine = line => select(ofLine[line]);
  const selectNode = node => select([node]);
  const selectStep = step => select(ofStep[step], step, 0);
  function selectKernelLine(step, launch, line) {
    const nodes = data.steps[step].launches[launch].origins[line].map(name => byName.get(name));
    select(nodes.filter(i => i !== undefined), step, launch, line);
  }

  function reveal(target, box) {
    if (target && box.offsetParent !== null) {
      const frame = box.getBoundingClientRect(), at = target.getBoundingClientRect();
      if (at.top < frame.top || at.bottom > frame.bottom) {
        box.scrollBy({ top: at.top - frame.top - frame.height / 3, behavior: reduced ? "auto" : "smooth" });
      }
    }
  }

  function mark(box, picks) {
    box.querySelectorAll(".picked").forEach(e => e.classList.remove("picked"));
    picks.forEach(e => e && e.classList.add("picked"));
    reveal(picks[0], box);
  }

  function show() {
    const lines = [...new Set([...selection.nodes].map(i => data.nodes[i].line).filter(l => l >= 0))];
    mark(pane("program"), lines.map(l => programRows[l]));
    mark(pane("aten"), [...selection.nodes].map(i => atenRows[i]));
    mark(pane("launches"), [costRows[selection.step]]);
    showGraph();
    showKernel();
    showTime();
    showCrumbs(lines);
    if (selection.step >= 0) history.replaceState(null, "", "#step=" + selection.step);
  }

  function showCrumbs(lines) {
    const bar = document.getElementById("crumbs");
    bar.replaceChildren();
    if (!selection.nodes.size && selection.step < 0) {
      element(bar, "span", { class: "soft" }, "Click a line, an op, a box or a kernel line: the others show what belongs to it.");
      return;
    }
    const parts = [];
    if (lines.length) parts.push(["program", placeOf(lines[0]) + (lines.length > 1 ? " +" + (lines.length - 1) : "")]);
    const nodes = [...selection.nodes];
    if (nodes.length) parts.push(["aten", data.nodes[nodes[0]].name + (nodes.length > 1 ? " +" + (nodes.length - 1) : "")]);
    if (selection.step >= 0) parts.push(["graph", titleOf(data.steps[selection.step])]);
    if (selection.kernelLine >= 0) parts.push(["kernel", "kernel line " + (selection.kernelLine + 1)]);
    parts.forEach(([name, text], i) => {
      if (i) element(bar, "span", { class: "soft" }, "→");
      element(bar, "button", { "data-crumb": name, title: text }, text).addEventListener("click", () => { open(name); show(); });
    });
  }

  // ---- the program

  const programRows = [];
  function buildProgram() {
    const box = pane("program");
    if (!data.program.length) element(box, "p", { class: "soft" }, "Tracing noted no lines of the program.");
    for (const file of data.program) {
      element(box, "h2", { title: file.file }, file.file);
      const rows = element(box, "div", { class: "rows" });
      for (const [number, text, line] of file.rows) {
        if (!number) { element(rows, "div", { class: "gap" }, "⋯"); continue; }
        const row = element(rows, "div", line >= 0 ? { "data-go": "", "data-line": file.file + ":" + number } : {});
        element(row, "span", { class: "no" }, number);
        element(row, "span", line >= 0 ? {} : { class: "dim" }, text);
        if (line < 0) continue;
        element(row, "span", { class: "count" }, ofLine[line].length + (ofLine[line].length === 1 ? " op" : " ops"));
        programRows[line] = row;
        clickable(row, () => selectLine(line));
      }
    }
  }

  // ---- ATen

  const atenRows = [];
  function buildAten() {
    const rows = element(pane("aten"), "div", { class: "rows" });
    data.nodes.forEach((node, i) => {
      const row = element(rows, "div", { "data-go": "", "data-node": node.name, title: placeOf(node.line) });
      element(row, "span", { class: "tag " + node.kind }, node.kind);
      element(row, "span", {}, node.name + " = " + node.op.replace(/\.default$/, "") + "(" + node.args + ")");
      element(row, "span", { class: "dim" }, node.type);
      atenRows[i] = row;
      clickable(row, () => selectNode(i));
    });
  }

  // ---- costs

  const costRows = [];
  function buildCosts() {
    const box = pane("launches");
    const note = data.runs ? "Run " + data.runs + ", on " + (data.device || "ATen alone") + ". Device time is by SYCL events; bytes are those of the tensors that are read and written."
      : "The graph has not run, so nothing is measured. Bytes are those of the tensors that are read and written.";
    element(box, "p", { class: "soft" }, note);
    const table = element(box, "table"), head = element(element(table, "thead"), "tr"), body = element(table, "tbody");
    const titles = ["step", "what", "bytes", "device", "GB/s", "host"];
    const rows = data.steps.map((step, i) => {
      const cost = costs[i], time = step.kind === "kernel" ? cost.device : cost.host;
      return { i, values: [i, titleOf(step), step.bytes, step.kind === "kernel" ? cost.device : 0, time ? step.bytes / time / 1e3 : 0, cost.host] };
    });
    const texts = [v => v, v => v, bytesText, v => v ? timeText(v) : "", v => v ? v.toFixed(1) : "", v => v ? timeText(v) : ""];
    let by = -1, down = true;
    function fill() {
      const sorted = by < 0 ? rows : [...rows].sort((a, b) => (a.values[by] > b.values[by] ? 1 : -1) * (down ? -1 : 1));
      body.replaceChildren();
      for (const { i, values } of sorted) {
        const row = element(body, "tr", { "data-go": "", "data-step": i });
        values.forEach((value, c) => element(row, "td", { class: c === 1 ? "" : "n" }, texts[c](value)));
        costRows[i] = row;
        clickable(row, () => selectStep(i));
      }
    }
    titles.forEach((title, c) => element(head, "th", { class: c === 1 ? "" : "n" }, title).addEventListener("click", () => {
      down = by === c ? !down : c > 1;
      by = c;
      fill();
    }));
    fill();
  }

  // ---- what is left to ATen

  function buildFallbacks() {
    const box = pane("fallbacks");
    const reasons = new Map();
    data.steps.forEach((step, i) => {
      if (step.kind !== "aten") return;
      const key = step.title + "\n" + step.reason;
      if (!reasons.has(key)) reasons.set(key, { step, all: [] });
      reasons.get(key).all.push(i);
    });
    if (!reasons.size) element(box, "p", { class: "soft" }, "Nothing: every op runs in a kernel.");
    const sorted = [...reasons.values()].sort((a, b) => a.step.deliberate - b.step.deliberate || b.all.length - a.all.length);
    for (const { step, all } of sorted) {
      const card = element(box, "div", { class: "card" });
      element(card, "b", {}, step.title);
      element(card, "span", { class: step.deliberate ? "soft" : "bad" }, " " + all.length + (all.length === 1 ? " call" : " calls") + (step.deliberate ? ", on purpose" : ", for want of a lowering"));
      element(card, "div", {}, step.reason);
      const rows = element(card, "div", { class: "rows" });
      for (const i of all) {
        const node = data.nodes[ofStep[i][0]];
        const row = element(rows, "div", { "data-go": "", "data-step": i });
        element(row, "span", {}, node.name);
        element(row, "span", { class: "dim" }, node.line >= 0 ? placeOf(node.line) + "  " + data.lines[node.line][2] : "");
        clickable(row, () => selectStep(i));
      }
    }
  }

  // ---- files and stages

  function buildFiles() {
    const box = pane("files");
    if (data.failed) element(box, "div", { class: "card error" }, "The stage " + data.failed.stage + " failed.\n" + data.failed.error);
    const folders = new Map();
    for (const file of data.files) {
      const cut = file.lastIndexOf("/"), folder = cut < 0 ? "" : file.slice(0, cut);
      if (!folders.has(folder)) folders.set(folder, []);
      folders.get(folder).push(file);
    }
    for (const [folder, files] of folders) {
      if (folder) element(box, "h2", {}, folder);
      const list = element(box, "ul", { class: "files" });
      for (const file of files) element(element(list, "li"), "a", { href: file.split("/").map(encodeURIComponent).join("/") }, file.slice(folder ? folder.length + 1 : 0));
    }
    element(box, "h2", {}, "Stages");
    const table = element(box, "table"), body = element(table, "tbody");
    for (const stage of data.stages) {
      const row = element(body, "tr");
      element(row, "td", {}, stage.stage);
      element(row, "td", { class: "n" }, stage.ms + " ms");
      element(row, "td", { class: "bad" }, stage.error.split("\n")[0]);
    }
    element(element(box, "p"), "a", { href: "../index.html" }, "All graphs of this dump");
  }

  // ---- the drawing

  const boxes = [], edges = [], graphRows = new Map();
  let view = { x: 0, y: 0, scale: 1 }, dragged = false, canvas = null;

  function buildGraph() {
    const box = pane("graph"), drawing = data.drawing;
    if (!drawing || !data.steps.length) {
      element(box, "p", { class: "soft", style: "padding:.6rem" }, "There is no partition to draw.");
      return;
    }
    const svg = element(box, "svg", { role: "img", "aria-label": "The graph: kernels and calls of ATen" });
    canvas = element(svg, "g");
    for (const [a, b, points] of drawing.edges) edges.push([a, b, element(canvas, "path", { class: "edge", d: curve(points) })]);
    data.steps.forEach((step, i) => boxes.push(drawBox(step, i, drawing.boxes[i], drawing.rows)));
    const zoom = element(box, "div", { class: "zoom" });
    for (const [text, title, go] of [["+", "Nearer", () => zoomBy(1.3)], ["−", "Farther", () => zoomBy(1 / 1.3)], ["⤢", "The whole graph", fit]]) {
      element(zoom, "button", { title, "aria-label": title }, text).addEventListener("click", go);
    }
    drag(svg);
    start();
  }

  function curve(points) {
    let path = "M" + points[0].join(" ");
    for (let i = 1; i < points.length; i++) {
      const [x, y] = points[i], [px, py] = points[i - 1], middle = (py + y) / 2;
      path += px === x ? "L" + x + " " + y : "C" + [px, middle, x, middle, x, y].join(" ");
    }
    return path;
  }

  function drawBox(step, i, [x, y, w, h], most) {
    const lack = step.kind === "aten" && !step.deliberate ? " lack" : "";
    const group = element(canvas, "g", { class: "box " + step.kind + lack, transform: "translate(" + x + "," + y + ")", "data-step": i });
    element(group, "rect", { class: "frame", width: w, height: h, rx: 7 });
    const clip = (text, n) => text.length > n ? text.slice(0, n - 1) + "…" : text;
    element(group, "text", { class: "title", x: 9, y: 17 }, clip(titleOf(step), 33));
    const cost = costs[i], time = step.kind === "kernel" ? cost.device : cost.host;
    element(group, "text", { class: "more", x: 9, y: 31 }, [step.launches.length > 1 ? step.launches.length + " launches" : "", bytesText(step.bytes), time ? timeText(time) : ""].filter(Boolean).join(" · "));
    step.nodes.slice(0, most).forEach((name, n) => {
      const row = element(group, "g", { class: "row", transform: "translate(0," + (40 + 15 * n) + ")", "data-node": name });
      element(row, "rect", { width: w - 8, height: 15, x: 4, rx: 2 });
      const index = byName.get(name), node = data.nodes[index];
      const op = node ? node.op.split(".")[1] || node.op : "";
      element(row, "text", { x: 9, y: 11 }, clip(name.startsWith(op) ? name : name + ": " + op, 34));
      if (index === undefined) return;
      graphRows.set(index, row);
      row.addEventListener("click", event => { if (!dragged) { event.stopPropagation(); selectNode(index); } });
    });
    if (step.nodes.length > most) element(group, "text", { class: "more", x: 9, y: 40 + 15 * most + 11 }, "and " + (step.nodes.length - most) + " more");
    clickable(group, () => selectStep(i));
    return group;
  }

  function apply() { canvas.setAttribute("transform", "translate(" + view.x + "," + view.y + ") scale(" + view.scale + ")"); }
  function zoomBy(factor, at) {
    const frame = pane("graph").getBoundingClientRect();
    const [px, py] = at || [frame.width / 2, frame.height / 2];
    const scale = Math.min(3, Math.max(0.02, view.scale * factor));
    view.x = px - (px - view.x) * scale / view.scale;
    view.y = py - (py - view.y) * scale / view.scale;
    view.scale = scale;
    apply();
  }
  function fit() {
    const frame = pane("graph").getBoundingClientRect(), d = data.drawing;
    view.scale = Math.min(1, (frame.width - 40) / d.width, (frame.height - 40) / d.height);
    view.x = (frame.width - d.width * view.scale) / 2;
    view.y = (frame.height - d.height * view.scale) / 2;
    apply();
  }
  function start() {
    const frame = pane("graph").getBoundingClientRect();
    if (!frame.width) return;
    view.scale = 0.9;
    centre(0);
  }
  function centre(step) {
    const frame = pane("graph").getBoundingClientRect(), [x, y, w, h] = data.drawing.boxes[step];
    view.x = frame.width / 2 - (x + w / 2) * view.scale;
    view.y = Math.min(24, frame.height / 2 - (y + h / 2) * view.scale) ;
    if (y === 0) view.y = 24;
    apply();
  }
  function drag(svg) {
    const box = pane("graph"), down = new Map();
    let spread = 0;
    box.addEventListener("pointerdown", event => { down.set(event.pointerId, [event.clientX, event.clientY]); dragged = false; spread = 0; });
    box.addEventListener("pointermove", event => {
      const last = down.get(event.pointerId);
      if (!last) return;
      const dx = event.clientX - last[0], dy = event.clientY - last[1];
      if (!dragged && Math.hypot(dx, dy) < 4 && down.size === 1) return;
      dragged = true;
      down.set(event.pointerId, [event.clientX, event.clientY]);
      if (down.size === 2) {
        const [a, b] = [...down.values()], now = Math.hypot(a[0] - b[0], a[1] - b[1]), frame = box.getBoundingClientRect();
        if (spread) zoomBy(now / spread, [(a[0] + b[0]) / 2 - frame.left, (a[1] + b[1]) / 2 - frame.top]);
        spread = now;
      } else { view.x += dx; view.y += dy; apply(); }
    });
    const up = event => { down.delete(event.pointerId); spread = 0; setTimeout(() => { dragged = false; }, 0); };
    addEventListener("pointerup", up);
    addEventListener("pointercancel", up);
    box.addEventListener("wheel", event => {
      event.preventDefault();
      const frame = box.getBoundingClientRect();
      zoomBy(Math.exp(-event.deltaY / 500), [event.clientX - frame.left, event.clientY - frame.top]);
    }, { passive: false });
  }
  function showGraph() {
    if (!canvas) return;
    canvas.querySelectorAll(".chosen,.picked,.near").forEach(e => e.classList.remove("chosen", "picked", "near"));
    const steps = new Set([...selection.nodes].map(i => data.nodes[i].step).filter(s => s >= 0));
    if (selection.step >= 0) steps.add(selection.step);
    steps.forEach(s => boxes[s].classList.add("chosen"));
    selection.nodes.forEach(i => graphRows.has(i) && graphRows.get(i).classList.add("picked"));
    for (const [a, b, path] of edges) if (steps.has(a) || steps.has(b)) path.classList.add("near");
    if (selection.step >= 0 && pane("graph").offsetParent !== null) {
      const frame = pane("graph").getBoundingClientRect(), at = boxes[selection.step].getBoundingClientRect();
      if (at.bottom < frame.top + 20 || at.top > frame.bottom - 20 || at.right < frame.left + 20 || at.left > frame.right - 20) centre(selection.step);
    }
  }

  // ---- the kernel

  function showKernel() {
    const box = pane("kernel");
    box.replaceChildren();
    if (selection.step < 0) {
      element(box, "p", { class: "soft" }, selection.nodes.size ? "This runs nowhere by itself: it is a view, or is known on the host." : "Choose a box in the graph, a line or an op.");
      return;
    }
    const step = data.steps[selection.step], cost = costs[selection.step];
    element(box, "h2", {}, step.title);
    const facts = [bytesText(step.bytes) + " read and written"];
    if (cost.device) facts.push(timeText(cost.device) + " on the device", (step.bytes / cost.device / 1e3).toFixed(1) + " GB/s");
    if (cost.host) facts.push(timeText(cost.host) + (step.kind === "kernel" ? " to submit" : " in ATen"));
    element(box, "p", { class: "soft" }, facts.join(", "));
    if (step.kind === "aten") {
      element(box, "p", { class: step.deliberate ? "" : "bad" }, "Left to ATen: " + step.reason);
      if (data.nodes[ofStep[selection.step][0]].line >= 0) listPlaces(box);
      return;
    }
    if (step.script) element(element(box, "p"), "a", { href: step.script.split("/").map(encodeURIComponent).join("/") }, "script that runs it alone");
    step.launches.forEach((launch, l) => {
      element(box, "p", { class: "soft" }, launch.schedule + "; over " + launch.size + " work-items");
      element(box, "p", { class: "soft" }, launch.buffers.join(", "));
      const rows = element(box, "div", { class: "rows" });
      data.kernels[launch.kernel].forEach((text, n) => {
        const origin = launch.origins[n] || [];
        const row = element(rows, "div", origin.length ? { "data-go": "", "data-kernel-line": n + 1, title: origin.join(", ") } : {});
        element(row, "span", { class: "no" }, n + 1);
        element(row, "span", {}, text);
        const here = l === selection.launch && n === selection.kernelLine;
        if (here || origin.some(name => selection.nodes.has(byName.get(name)))) row.classList.add("picked");
        if (origin.length) clickable(row, () => selectKernelLine(selection.step, l, n));
      });
    });
    listPlaces(box);
    reveal(box.querySelector(".picked"), box);
  }

  function listPlaces(box) {
    const lines = [...new Set(ofStep[selection.step].map(i => data.nodes[i].line).filter(l => l >= 0))];
    if (!lines.length) return;
    element(box, "h2", {}, "Comes from");
    const rows = element(box, "div", { class: "rows" });
    for (const line of lines) {
      const row = element(rows, "div", { "data-go": "", "data-line": data.lines[line][0] + ":" + data.lines[line][1] });
      element(row, "span", { class: "dim" }, placeOf(line));
      element(row, "span", {}, data.lines[line][2]);
      clickable(row, () => { selectLine(line); });
    }
  }

  // ---- time

  const bars = [];
  let wide = 1;
  function buildTime() {
    const box = pane("time");
    if (!data.spans.length) { element(box, "p", { class: "soft" }, "The graph has not run while it was watched: no times."); return; }
    const legend = element(box, "div", { class: "legend" });
    for (const [kind, text] of [["kernel", "kernel"], ["aten", "ATen"], ["wait", "waiting for kernels"]]) {
      const item = element(legend, "span");
      element(item, "i", { style: "background:var(--" + kind + ")" });
      item.append(text);
    }
    const end = Math.max(...data.spans.map(([, s, l, k]) => Math.max(s + l, ...k.map(([a, b]) => a + b))));
    element(legend, "span", { class: "soft" }, "run " + data.runs + ": " + timeText(end));
    for (const [text, factor] of [["+", 2], ["−", 0.5]]) {
      element(legend, "button", { "aria-label": factor > 1 ? "Wider" : "Narrower" }, text).addEventListener("click", () => { wide = Math.min(64, Math.max(1, wide * factor)); svg.style.width = 100 * wide + "%"; });
    }
    const scroll = element(box, "div", { class: "scroll" });
    const svg = element(scroll, "svg", { viewBox: "0 0 1000 74", preserveAspectRatio: "none", style: "width:100%;height:74px;display:block" });
    const bar = (step, kind, from, length, y, text) => {
      const rect = element(svg, "rect", { class: kind, x: from / end * 1000, width: Math.max(0.4, length / end * 1000), y, height: 26, "vector-effect": "non-scaling-stroke" });
      element(rect, "title", {}, text + ": " + timeText(length));
      if (step === "wait") return;
      rect.setAttribute("data-step", step);
      bars.push([step, rect]);
      clickable(rect, () => selectStep(step));
    };
    for (const [step, from, length, kernels] of data.spans) {
      const kind = step === "wait" ? "wait" : data.steps[step].kind;
      bar(step, kind, from, length, 6, step === "wait" ? "waiting for kernels" : titleOf(data.steps[step]) + (kind === "kernel" ? ", submitting" : ""));
      for (const [at, took] of kernels) bar(step, "kernel", at, took, 42, titleOf(data.steps[step]) + " on the device");
    }
    element(box, "div", { class: "soft" }, "Above: the host. Below: kernels on the device.");
  }
  function showTime() { for (const [step, rect] of bars) rect.classList.toggle("chosen", step === selection.step); }

  // ---- tabs

  const panes = [...document.querySelectorAll(".pane")];
  function open(name) {
    const side = pane(name).classList.contains("side"), wideScreen = matchMedia("(min-width: 1000px)").matches;
    for (const other of panes) {
      if (!wideScreen || (side && other.classList.contains("side"))) other.classList.toggle("on", other === pane(name));
    }
    document.querySelectorAll("#tabs button").forEach(b => b.setAttribute("aria-selected", pane(b.dataset.pane).classList.contains("on")));
    if (name === "graph" && canvas && view.scale === 1 && !view.x) start();
  }
  for (const p of panes) {
    const name = p.id.slice(5);
    const tab = element(document.getElementById("tabs"), "button", { role: "tab", "data-pane": name, "data-wide": p.classList.contains("side") ? "yes" : "no" }, p.dataset.title);
    tab.addEventListener("click", () => { open(name); show(); });
  }

  function buildFacts() {
    const box = document.getElementById("facts");
    const kernels = data.steps.filter(s => s.kind === "kernel"), aten = data.steps.length - kernels.length;
    const launches = data.launches;
    const fact = (n, text) => { const item = element(box, "span"); element(item, "b", {}, n); item.append(" " + text); };
    fact(data.nodes.length, "ATen nodes");
    fact(launches, "launches of " + Object.keys(data.kernels).length + " kernels");
    fact(aten, "calls of ATen");
    if (data.failed) element(box, "b", { class: "bad" }, "failed in " + data.failed.stage);
  }

  buildFacts();
  buildProgram();
  buildAten();
  buildCosts();
  buildFallbacks();
  buildFiles();
  buildGraph();
  buildTime();
  open(data.failed ? "files" : "program");
  const asked = /^#step=(\d+)$/.exec(location.hash);
  if (asked && data.steps[+asked[1]]) selectStep(+asked[1]); else show();
})();
