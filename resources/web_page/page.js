"use strict";
// Draws the scenes of a graph on a canvas and shows facts of what is selected. What the model says becomes text nodes
// (`textContent`, `fillText`) and nothing else. The data is made by viewer/pictures/web_page.py.
(() => {
  const data = JSON.parse(document.getElementById("graph").textContent);
  const {nodes, values, groups, graphs} = data;

  // Kinds of boxes, and the places in the lists that describe boxes, edges and labels.
  const NODE = 0, GROUP = 4, CONTAINER = 5;
  const B = {kind: 0, list: 1, index: 2, x: 3, y: 4, w: 5, h: 6, depth: 7, category: 8, target: 9, id: 10,
             difference: 11, title: 12, note: 13, names: 14, rows: 15,
             color: 16, ink: 17};
  const E = {source: 0, target: 1, value: 2, many: 3, dashed: 4, difference: 5, points: 6};
  const L = {edge: 0, x: 1, y: 2, w: 3, h: 4, text: 5, stacked: 6, alarm: 7, bars: 8, note: 9, stale: 10};
  // Measures of a box, px at 100 %; as in viewer/canvas/scene/drawing.py.
  const HEADER = 26, ROW = 18, PADDING = 4, SIDE = 9, BUTTON = 20, STACK = 8, RADIUS = 4;
  // From which scale things are drawn; as in viewer/canvas/paint/painter.py.
  const BLOCKS_BELOW = 0.3, TITLES_FROM = 0.4, ROWS_FROM = 0.5, LINES_BELOW = 0.22, ARROWS_FROM = 0.35;
  const MOST_FOUND = 300;
  const SIGNS = {added: "+", removed: "−", changed: "~", moved: "→", renamed: "="};
  const COLORS = {added: "added", removed: "removed", changed: "edited", moved: "moved", renamed: "muted"};

  /** A text of the page in its language; # in it stands for a number or a name. */
  function say(text, part = "") {
    return (data.words[text] || text).replace("#", () => part);
  }

  // -- elements ------------------------------------------------------------------------------------------------

  function element(tag, text, ...children) {
    const made = document.createElement(tag);
    if (text) made.textContent = text;
    made.append(...children);
    return made;
  }

  function button(text, label, run) {
    const made = element("button", say(text));
    made.type = "button";
    made.title = say(label);
    made.setAttribute("aria-label", say(label));
    made.addEventListener("click", run);
    return made;
  }

  function link(text, run, kind = "") {
    const made = element("button", text);
    made.type = "button";
    made.className = `link ${kind}`;
    made.addEventListener("click", run);
    return made;
  }

  const search = element("input");
  search.type = "search";
  search.placeholder = say("Search nodes and values ( / )");
  search.setAttribute("aria-label", say("Search nodes and values"));
  const openAll = button("Open all", "Open all groups and draw every node", () => go(scene === data.allOpen ? 0 : data.allOpen));
  openAll.hidden = data.allOpen < 0;
  const header = element("header", "",
    element("h1", data.title), search, openAll,
    button("−", "Zoom out", () => zoomBy(1 / 1.3)), button("+", "Zoom in", () => zoomBy(1.3)),
    button("Fit", "Show the whole graph (F)", () => { fit(); repaint(); }));
  const view = element("div");
  view.id = "view";
  const canvas = element("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", say("Graph of #", data.title));
  view.append(canvas);
  const panel = element("aside");
  panel.setAttribute("aria-label", say("Facts"));
  document.body.append(header, view, panel);
  const pen = canvas.getContext("2d");

  // -- what refers to what -------------------------------------------------------------------------------------

  const producers = new Array(values.length).fill(-1), consumers = values.map(() => []);
  nodes.forEach((node, index) => {
    for (const [value] of node.in) if (value >= 0) consumers[value].push(index);
    for (const [value] of node.out) if (value >= 0) producers[value] = index;
  });

  // -- scenes --------------------------------------------------------------------------------------------------

  /** Finds things by their rectangles [left, top, right, bottom], in cells of a grid. */
  class Grid {
    constructor(rects, bounds) {
      this.rects = rects;
      this.left = bounds[0];
      this.top = bounds[1];
      this.size = Math.max(400, (bounds[2] - bounds[0]) / 64, (bounds[3] - bounds[1]) / 64);
      this.cells = new Map();
      this.seen = new Uint32Array(rects.length);
      this.turn = 0;
      rects.forEach((rect, index) => this.each(rect, key => {
        const cell = this.cells.get(key);
        if (cell) cell.push(index); else this.cells.set(key, [index]);
      }));
    }
    each([left, top, right, bottom], run) {
      const column = x => Math.min(80, Math.max(-8, Math.floor(x)));
      for (let y = column((top - this.top) / this.size); y <= column((bottom - this.top) / this.size); y++)
        for (let x = column((left - this.left) / this.size); x <= column((right - this.left) / this.size); x++)
          run(y * 1000 + x);
    }
    /** The indexes of what reaches into an area, in order. */
    find(area) {
      const found = [], turn = ++this.turn;
      this.each(area, key => {
        for (const index of this.cells.get(key) || []) {
          const rect = this.rects[index];
          if (this.seen[index] !== turn && rect[0] <= area[2] && rect[2] >= area[0] && rect[1] <= area[3]
              && rect[3] >= area[1]) found.push(index);
          this.seen[index] = turn;
        }
      });
      return found.sort((a, b) => a - b);
    }
  }

  function extent(points) {
    let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
    for (let i = 0; i < points.length; i += 2) {
      left = Math.min(left, points[i]); right = Math.max(right, points[i]);
      top = Math.min(top, points[i + 1]); bottom = Math.max(bottom, points[i + 1]);
    }
    return [left - 4, top - 4, right + 4, bottom + 4];
  }

  const corners = box => [box[B.x], box[B.y], box[B.x] + box[B.w], box[B.y] + box[B.h]];

  /** A scene with its indexes, which are made when it is first shown. */
  function prepared(number) {
    const made = data.scenes[number];
    if (!made.boxGrid) {
      made.boxGrid = new Grid(made.boxes.map(corners), made.bounds);
      made.edgeGrid = new Grid(made.edges.map(edge => extent(edge[E.points])), made.bounds);
      made.labelGrid = new Grid(made.labels.map(l => [l[L.x], l[L.y], l[L.x] + l[L.w], l[L.y] + l[L.h]]), made.bounds);
    }
    return made;
  }

  /** The number of the box that stands for a thing in a scene; -1 for none. */
  function boxOf(number, list, index) {
    const made = data.scenes[number];
    if (!made.places) {
      made.places = new Map();
      made.boxes.forEach((box, place) => {
        const key = box[B.list] + box[B.index];
        if (!made.places.has(key)) made.places.set(key, place);
      });
    }
    const found = made.places.get(list + index);
    return found === undefined ? -1 : found;
  }

  let scene = 0, x = 0, y = 0, scale = 1;      // x, y: the point of the scene at the left top corner
  let width = 1, height = 1;                   // of the canvas, px
  let fitted = {};                             // the view that `fit` made; it fits again when the page's size changes
  let selected = null;                         // {list, index}

  /** Shows a scene; with the key of a box, that box stays where `old` was. */
  function go(number, key = -1, old = null) {
    if (number < 0 || number === scene) return;
    scene = number;
    openAll.textContent = say(scene === data.allOpen ? "Close all" : "Open all");
    openAll.title = say(scene === data.allOpen ? "Close all groups" : "Open all groups and draw every node");
    const box = data.scenes[scene].boxes.find(one => one[B.id] === key);
    if (box && old) {
      x += box[B.x] - old[B.x];
      y += box[B.y] - old[B.y];
      if (box[B.w] * scale > width) x = box[B.x] - 20 / scale;
    } else fit();
    repaint();
  }

  function toggle(box) {
    if (box[B.target] >= 0) go(box[B.target], box[B.id], box);
  }

  function least() {
    const [left, top, right, bottom] = data.scenes[scene].bounds;
    return Math.min(1, width / (right - left + 60), height / (bottom - top + 60));
  }

  function fit(readable = false) {
    showStart(readable);
    fitted = {x, y, scale, readable};
  }

  function showStart(readable) {
    const [left, top, right, bottom] = data.scenes[scene].bounds;
    scale = least();
    if (readable && scale < ROWS_FROM) {
      // too small to read: begin where the graph begins, with all that lies side by side in view where it can be read
      const rightward = data.direction === "right", first = data.scenes[scene].boxes[0];
      scale = Math.min(1, rightward ? height / (bottom - top + 60) : width / (right - left + 60));
      const fits = scale >= 0.6;
      if (!fits) scale = 0.8;
      const middleX = fits ? (left + right) / 2 : first[B.x] + first[B.w] / 2;
      const middleY = fits ? (top + bottom) / 2 : first[B.y] + first[B.h] / 2;
      x = rightward ? left - 30 / scale : middleX - width / 2 / scale;
      y = rightward ? middleY - height / 2 / scale : top - 30 / scale;
      return;
    }
    x = (left + right) / 2 - width / 2 / scale;
    y = (top + bottom) / 2 - height / 2 / scale;
  }

  function zoomBy(factor, atX = width / 2, atY = height / 2) {
    const now = Math.min(4, Math.max(Math.min(least() / 2, 0.5), scale * factor));
    x += atX / scale - atX / now;
    y += atY / scale - atY / now;
    scale = now;
    repaint();
  }

  function centre(box) {
    if (scale < ROWS_FROM) scale = 0.8;
    const w = Math.min(box[B.w], width / scale), h = Math.min(box[B.h], height / scale);
    x = box[B.x] + w / 2 - width / 2 / scale;
    y = box[B.y] + h / 2 - height / 2 / scale;
  }

  /** Selects a thing and brings it into view, in another scene where it is not in this one. */
  function reveal(list, index) {
    select(list, index);
    let at = place(list, index, scene);
    for (let number = 0; at < 0 && number < data.scenes.length; number++) {
      at = place(list, index, number);
      if (at >= 0) go(number);
    }
    if (at >= 0) centre(data.scenes[scene].boxes[at]);
    repaint();
  }

  /** The box to show for a thing: its own, or for a value that of the node that makes or uses it. */
  function place(list, index, number) {
    let at = boxOf(number, list, index);
    if (at < 0 && list === "v")
      for (const node of [producers[index], ...consumers[index]])
        if (at < 0 && node >= 0) at = boxOf(number, "n", node);
    if (at < 0 && list === "n" && nodes[index].op === "Constant")  // is a row of its consumers
      for (const [value] of nodes[index].out)
        for (const node of value >= 0 ? consumers[value] : [])
          if (at < 0) at = boxOf(number, "n", node);
    return at;
  }

  // -- painting ------------------------------------------------------------------------------------------------

  let colors = {}, waiting = false;

  function readColors() {
    const style = getComputedStyle(document.documentElement);
    const names = ["canvas", "node", "node-border", "endpoint", "text", "muted", "edge", "label", "accent", "match",
                   "error", "added", "removed", "edited", "moved", "group-border", "frame0", "frame1", "header-text"];
    names.push(...data.categories.map((_, number) => `category${number}`));
    colors = Object.fromEntries(names.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  function repaint() {
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(() => { waiting = false; paint(); });
    }
  }

  const font = (size, weight) => `${weight} ${size}px system-ui, sans-serif`;
  const HEADER_FONT = font(data.headerSize, 600), NAME_FONT = font(Math.max(data.headerSize - 1, 12), 500),
        ROW_FONT = font(Math.max(data.headerSize - 1, 12), 400), LABEL_FONT = font(12, 400);

  function text(content, left, middle, style, color, widest) {
    if (!content || widest <= 0) return;
    pen.font = style;
    pen.fillStyle = color;
    pen.fillText(content, left, middle, widest);
  }

  function roundRect(left, top, w, h, radius) {
    pen.beginPath();
    pen.roundRect(left, top, w, h, radius);
  }

  function paint() {
    const ratio = devicePixelRatio || 1, shown = prepared(scene);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colors.canvas;
    pen.fillRect(0, 0, width, height);
    pen.setTransform(ratio * scale, 0, 0, ratio * scale, -x * scale * ratio, -y * scale * ratio);
    pen.textBaseline = "middle";
    const area = [x - 10, y - 10, x + width / scale + 10, y + height / scale + 10];
    const found = shown.boxGrid.find(area), frames = [], boxes = [];
    for (const number of found) (shown.boxes[number][B.kind] === CONTAINER ? frames : boxes).push(shown.boxes[number]);
    for (const box of frames) paintFrame(box);
    paintEdges(shown, area);
    if (scale >= TITLES_FROM) for (const box of frames) paintFrameTitle(box);
    if (scale < BLOCKS_BELOW) for (const box of boxes) paintBlock(box);
    else for (const box of boxes) paintBox(box);
    if (scale >= ROWS_FROM) for (const number of shown.labelGrid.find(area)) paintLabel(shown, shown.labels[number]);
    for (const box of found.map(number => shown.boxes[number])) {
      if (box[B.difference]) outline(box, colors[COLORS[box[B.difference]]], 2.5);
      if (selected && box[B.list] === selected.list && box[B.index] === selected.index) outline(box, colors.accent, 3);
    }
    canvas.dataset.scene = scene;
    canvas.dataset.painted = found.length;
    canvas.dataset.zoom = Math.round(scale * 100);
  }

  function outline(box, color, wide) {
    pen.strokeStyle = color;
    pen.lineWidth = Math.max(wide, wide * 0.7 / scale);
    const stack = box[B.kind] === GROUP ? STACK : 0;
    roundRect(box[B.x] - 1, box[B.y] - 1, box[B.w] - stack + 2, box[B.h] - stack + 2, RADIUS);
    pen.stroke();
  }

  function paintFrame(box) {
    pen.fillStyle = colors[`frame${box[B.depth] % 2}`];
    pen.strokeStyle = colors["group-border"];
    pen.lineWidth = 1;
    roundRect(box[B.x] + 0.5, box[B.y] + 0.5, box[B.w] - 1, box[B.h] - 1, RADIUS);
    pen.fill();
    pen.stroke();
    if (box[B.category] >= 0) {
      pen.fillStyle = colors[`category${box[B.category]}`];
      pen.fillRect(box[B.x] + 5, box[B.y] + 6, 4, HEADER - 12);
    }
  }

  function paintFrameTitle(box) {
    const shift = box[B.category] >= 0 ? 6 : 0, left = box[B.x] + SIDE + shift;
    pen.font = HEADER_FONT;
    const wide = pen.measureText(box[B.title]).width;
    pen.fillStyle = colors[`frame${box[B.depth] % 2}`];
    pen.fillRect(left - 3, box[B.y] + 5, Math.min(wide + 6, box[B.w] - 2 * SIDE), HEADER - 9);
    paintTitle(box, left, box[B.w] - shift, colors.text, colors.muted);
  }

  function paintTitle(box, left, w, color, muted) {
    const middle = box[B.y] + HEADER / 2 + 0.5, space = w - 2 * SIDE - (box[B.target] >= 0 ? BUTTON : 0);
    text(box[B.title], left, middle, HEADER_FONT, color, space);
    if (box[B.note]) {
      const used = Math.min(pen.measureText(box[B.title]).width, space) + 10;
      text(box[B.note], left + used, middle, ROW_FONT, muted, space - used);
    }
    if (box[B.target] >= 0) {
      const [cx, cy] = buttonAt(box);
      pen.strokeStyle = color;
      pen.lineWidth = 1.4;
      roundRect(cx - 6.5, cy - 6.5, 13, 13, 2.5);
      pen.moveTo(cx - 3.5, cy);
      pen.lineTo(cx + 3.5, cy);
      if (box[B.kind] !== CONTAINER) {
        pen.moveTo(cx, cy - 3.5);
        pen.lineTo(cx, cy + 3.5);
      }
      pen.stroke();
    }
  }

  function buttonAt(box) {
    const stack = box[B.kind] === GROUP ? STACK : 0;
    return [box[B.x] + box[B.w] - stack - 2 - BUTTON / 2, box[B.y] + HEADER / 2];
  }

  const headerColor = box => box[B.color] ||
    (box[B.category] >= 0 ? colors[`category${box[B.category]}`] : colors.endpoint);

  function paintBlock(box) {
    pen.fillStyle = box[B.kind] === NODE || box[B.kind] === GROUP ? headerColor(box) : colors.endpoint;
    const least = 1.5 / scale;
    pen.fillRect(box[B.x], box[B.y], Math.max(box[B.w], least), Math.max(box[B.h], least));
  }

  function paintBox(box) {
    const kind = box[B.kind];
    if (kind === NODE) paintNode(box);
    else if (kind === GROUP) paintGroup(box);
    else paintPill(box);
  }

  function card(left, top, w, h, fill, border) {
    pen.fillStyle = fill;
    pen.strokeStyle = border;
    pen.lineWidth = 1;
    roundRect(left + 0.5, top + 0.5, w - 1, h - 1, RADIUS);
    pen.fill();
    pen.stroke();
  }

  function paintNode(box) {
    const color = headerColor(box), rows = box[B.rows];
    if (rows.length) card(box[B.x], box[B.y], box[B.w], box[B.h], colors.node, colors["node-border"]);
    pen.fillStyle = color;
    roundRect(box[B.x], box[B.y], box[B.w], rows.length ? HEADER : box[B.h], rows.length ? [RADIUS, RADIUS, 0, 0] : RADIUS);
    pen.fill();
    if (scale < TITLES_FROM) return;
    let left = box[B.x] + SIDE;
    if (!rows.length && !box[B.note] && box[B.target] < 0) {
      pen.font = HEADER_FONT;
      left = box[B.x] + Math.max(SIDE, (box[B.w] - pen.measureText(box[B.title]).width) / 2);
    }
    const ink = box[B.ink] || colors["header-text"];
    paintTitle(box, left, box[B.w], ink, ink);
    paintRows(box, box[B.y]);
  }

  function paintGroup(box) {
    const w = box[B.w] - STACK, h = box[B.h] - STACK;
    for (const shift of [STACK, STACK / 2])
      card(box[B.x] + shift, box[B.y] + shift, w, h, colors.frame0, colors["group-border"]);
    card(box[B.x], box[B.y], w, h, colors.node, colors["node-border"]);
    pen.fillStyle = colors.endpoint;
    roundRect(box[B.x], box[B.y], w, HEADER, [RADIUS, RADIUS, 0, 0]);
    pen.fill();
    pen.fillStyle = headerColor(box);
    pen.fillRect(box[B.x] + 1, box[B.y] + HEADER, w - 2, 2);
    if (scale < TITLES_FROM) return;
    paintTitle(box, box[B.x] + SIDE, w, colors.text, colors.muted);
    paintRows(box, box[B.y] + 1);
  }

  function paintRows(box, top) {
    if (scale < ROWS_FROM) return;
    const stack = box[B.kind] === GROUP ? STACK : 0;
    const column = SIDE + (box[B.names] ? box[B.names] + 10 : 0);
    let middle = top + HEADER + PADDING + ROW / 2 + 0.5;
    for (const [name, content] of box[B.rows]) {
      text(name, box[B.x] + SIDE, middle, NAME_FONT, colors.muted, box[B.names]);
      text(content, box[B.x] + column, middle, ROW_FONT, colors.text, box[B.w] - stack - column - SIDE + 3);
      middle += ROW;
    }
  }

  function paintPill(box) {
    pen.fillStyle = colors.endpoint;
    pen.strokeStyle = colors["node-border"];
    pen.lineWidth = 1;
    roundRect(box[B.x] + 0.5, box[B.y] + 0.5, box[B.w] - 1, box[B.h] - 1, box[B.h] / 2);
    pen.fill();
    pen.stroke();
    if (scale < TITLES_FROM) return;
    pen.font = NAME_FONT;
    const name = pen.measureText(box[B.title]).width;
    pen.font = ROW_FONT;
    const note = box[B.note] ? pen.measureText(box[B.note]).width + 10 : 0;
    const room = box[B.w] - 16, share = Math.min(1, room / (name + note));
    const left = box[B.x] + (box[B.w] - (name + note) * share) / 2, middle = box[B.y] + box[B.h] / 2 + 0.5;
    text(box[B.title], left, middle, NAME_FONT, colors.text, name * share);
    text(box[B.note], left + (name + 10) * share, middle, ROW_FONT, colors.muted, (note - 10) * share);
  }

  function paintEdges(shown, area) {
    const styles = new Map();
    for (const number of shown.edgeGrid.find(area)) {
      const edge = shown.edges[number];
      const style = isSelected(edge) ? "accent" : COLORS[edge[E.difference]] || "edge";
      const key = style + edge[E.dashed];
      if (!styles.has(key)) styles.set(key, [style, edge[E.dashed], []]);
      styles.get(key)[2].push(edge);
    }
    const ordered = [...styles.values()].sort((a, b) => (a[0] !== "edge") - (b[0] !== "edge"));
    for (const [style, dashed, edges] of ordered) {
      pen.strokeStyle = pen.fillStyle = colors[style];
      pen.lineWidth = style === "edge" ? Math.max(1.2, 0.6 / scale) : Math.max(2.4, 1.6 / scale);
      pen.globalAlpha = scale < LINES_BELOW && style === "edge" ? 0.5 : 1;
      pen.setLineDash(dashed ? [5, 3.5] : []);
      pen.beginPath();
      for (const edge of edges) trace(edge[E.points]);
      pen.stroke();
      pen.setLineDash([]);
      pen.globalAlpha = 1;
      if (scale >= ARROWS_FROM) {
        pen.beginPath();
        for (const edge of edges) arrow(edge[E.points]);
        pen.fill();
      }
    }
  }

  const isSelected = edge => selected && (selected.list === "v" ? edge[E.value] === selected.index
    : selected.list === "n" && (producers[edge[E.value]] === selected.index
      || consumers[edge[E.value]].includes(selected.index) && isEnd(edge, selected.index)));

  function isEnd(edge, node) {
    const box = data.scenes[scene].boxes[edge[E.target]];
    return box[B.list] === "n" && box[B.index] === node;
  }

  function trace(points) {
    if (points.length < 8) return;
    pen.moveTo(points[0], points[1]);
    if (scale < LINES_BELOW) {
      pen.lineTo(points[points.length - 2], points[points.length - 1]);
      return;
    }
    for (let i = 2; i < points.length; i += 6)
      pen.bezierCurveTo(points[i], points[i + 1], points[i + 2], points[i + 3], points[i + 4], points[i + 5]);
  }

  function arrow(points) {
    const last = points.length;
    if (last < 8) return;
    const endX = points[last - 2], endY = points[last - 1];
    let fromX = points[last - 4], fromY = points[last - 3];
    if (fromX === endX && fromY === endY) [fromX, fromY] = [points[last - 8], points[last - 7]];
    const length = Math.hypot(endX - fromX, endY - fromY) || 1;
    const ux = (endX - fromX) / length * 7, uy = (endY - fromY) / length * 7;
    pen.moveTo(endX, endY);
    pen.lineTo(endX - ux - uy * 0.42, endY - uy + ux * 0.42);
    pen.lineTo(endX - ux + uy * 0.42, endY - uy - ux * 0.42);
  }

  function paintLabel(shown, label) {
    let left = label[L.x], top = label[L.y];
    pen.fillStyle = colors.label;
    pen.fillRect(left, top, label[L.w], label[L.h]);
    left += 3;
    const right = label[L.x] + label[L.w], middle = () => top + 8.5;
    text(label[L.text], left, middle(), LABEL_FONT, colors.muted, right - left);
    if (label.length <= L.stacked) return;
    if (label[L.stacked]) top += 16;
    else if (label[L.text]) {
      pen.font = LABEL_FONT;
      left += pen.measureText(label[L.text]).width + 7;
    }
    if (label[L.alarm]) {
      text(label[L.alarm], left, middle(), LABEL_FONT, colors.error, right - left);
      left += pen.measureText(label[L.alarm]).width + 7;
    }
    pen.fillStyle = label[L.stale] ? colors.muted : colors.accent;
    for (const bar of label[L.bars]) {
      pen.fillRect(left, top + 14 - bar * 12, 2, bar * 12);
      left += 2;
    }
    if (label[L.bars].length) left += 7;
    text(label[L.note], left, middle(), LABEL_FONT, label[L.stale] ? colors.muted : colors.text, right - left);
  }

  // -- facts ---------------------------------------------------------------------------------------------------

  const nodeTitle = node => node.name || `${node.op}`;
  const domainOf = node => node.domain ? `${node.domain}::${node.op}` : node.op;

  function section(title, ...content) {
    const filled = content.filter(Boolean);
    if (filled.length) panel.append(element("h3", say(title)), ...filled);
  }

  function table(facts) {
    if (!facts || !facts.length) return null;
    const made = element("dl");
    for (const [name, content] of facts)
      made.append(element("dt", name), content instanceof Node ? element("dd", "", content) : element("dd", content));
    return made;
  }

  function list(items) {
    const made = element("ul");
    for (const item of items) made.append(element("li", "", item));
    return items.length ? made : null;
  }

  function documentation(content) {
    if (!content) return;
    const made = element("p", content);
    made.className = "doc";
    section("Documentation", made);
  }

  function differences(lines) {
    section("Differences", lines && lines.length ? list(lines.map(line => element("span", line))) : null);
  }

  function valueLink(index, name = "") {
    const value = values[index], made = element("span", "", link(value.name || say("(unnamed value)"), () => reveal("v", index)));
    const about = [name, value.type].filter(Boolean).join(" · ");
    if (about) {
      const muted = element("span", ` ${about}`);
      muted.className = "muted";
      made.append(muted);
    }
    return made;
  }

  function nodeLink(index) {
    const node = nodes[index], sign = node.kind ? `${SIGNS[node.kind]} ` : "";
    const made = element("span", "", link(sign + nodeTitle(node), () => reveal("n", index), node.kind || ""));
    if (node.name) made.append(` ${node.op}`);
    return made;
  }

  function ports(title, entries) {
    section(title, list(entries.map(([value, name]) =>
      value < 0 ? element("span", say("left out") + (name ? ` (${name})` : "")) : valueLink(value, name))));
  }

  function showNode(index) {
    const node = nodes[index];
    panel.append(element("h2", nodeTitle(node)));
    panel.append(element("p", domainOf(node)));
    if (node.kind) {
      const made = element("p", `${SIGNS[node.kind]} ${say(node.kind)}`);
      made.className = node.kind;
      panel.append(made);
    }
    if (node.graph !== undefined && graphs.length > 1)
      panel.append(table([[say("In"), graphs[node.graph].path]]));
    differences([...(node.differences || []),
                 ...[...node.in, ...node.out].flatMap(([value]) => value >= 0 && values[value].differences || [])]);
    section("Data", table(node.data));
    section("Attributes", table(node.attributes));
    ports("Inputs", node.in);
    ports("Outputs", node.out);
    section("Metadata", table(node.metadata));
    documentation(node.doc);
  }

  function showValue(index) {
    const value = values[index], producer = producers[index];
    panel.append(element("h2", value.name || say("(unnamed value)")));
    const facts = [];
    if (value.type) facts.push([say("Type"), value.type]);
    if (value.role) facts.push([say("Role"), say(`${value.role} of the graph`)]);
    if (facts.length) panel.append(table(facts));
    differences(value.differences);
    section("Constant", table(value.constant));
    section("Value in the run", table(value.run), bars(value.bars));
    section("Computed by", producer >= 0 ? nodeLink(producer) : null);
    section("Used by", list([...new Set(consumers[index])].slice(0, MOST_FOUND).map(nodeLink)));
    documentation(value.doc);
  }

  function bars(counts) {
    if (!counts || !counts.length) return null;
    const most = Math.max(...counts, 1), made = element("div");
    made.className = "bars";
    made.setAttribute("role", "img");
    made.setAttribute("aria-label", say("Histogram"));
    for (const count of counts) {
      const bar = element("span");
      bar.style.height = `${Math.max(100 * count / most, count ? 3 : 0)}%`;
      bar.title = `${count}`;
      made.append(bar);
    }
    return made;
  }

  function showGroup(index) {
    const group = groups[index];
    panel.append(element("h2", group.name), element("p", say("Group of # nodes", group.count)));
    panel.append(table([[say("Path"), group.path]]));
    section("Data", table(group.data));
    section("Operators", table(group.ops.map(([op, count]) => [op, `${count}`])));
  }

  function showModel() {
    const model = data.model;
    panel.append(element("h2", data.title), table(model.facts));
    const changed = nodes.map((node, index) => node.kind ? index : -1).filter(index => index >= 0);
    differences(model.differences);
    if (changed.length)
      section(say("# nodes that differ", changed.length), list(changed.slice(0, MOST_FOUND).map(nodeLink)));
    else if (data.hasDifferences) section("Differences", element("p", say("No node differs.")));
    section("Inputs", list(model.in.map(value => valueLink(value))));
    section("Outputs", list(model.out.map(value => valueLink(value))));
    documentation(model.doc);
    section("Keys", table([[say("Drag, wheel, arrows"), say("move")], [say("Ctrl+wheel, + −"), say("zoom")],
                           ["F", say("show all")], ["/", say("search")], ["Enter", say("open or close a group")],
                           ["Esc", say("select nothing")]]));
  }

  function select(listName, index) {
    selected = listName === null ? null : {list: listName, index};
    search.value = "";
    showSelected();
    remember();
    repaint();
  }

  function showSelected() {
    panel.replaceChildren();
    panel.scrollTop = 0;
    if (!selected) showModel();
    else if (selected.list === "n") showNode(selected.index);
    else if (selected.list === "v") showValue(selected.index);
    else if (selected.list === "s") showGroup(selected.index);
    else {
      const graph = graphs[selected.index];
      panel.append(element("h2", graph.name), table([[say("Path"), graph.path], [say("Nodes"), `${graph.count}`]]));
    }
  }

  // -- search --------------------------------------------------------------------------------------------------

  let found = [];

  function find(wanted) {
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean), hits = [];
    const matches = content => words.every(word => content.toLowerCase().includes(word));
    for (let index = 0; index < nodes.length && hits.length < MOST_FOUND; index++)
      if (matches(`${nodes[index].op} ${nodes[index].name}`)) hits.push(["n", index]);
    for (let index = 0; index < values.length && hits.length < MOST_FOUND; index++)
      if (matches(values[index].name)) hits.push(["v", index]);
    return hits;
  }

  search.addEventListener("input", () => {
    if (!search.value.trim()) { found = []; showSelected(); return; }
    found = find(search.value);
    panel.replaceChildren(element("h2", say(found.length < MOST_FOUND ? "# found" : "# or more found", found.length)));
    const items = list(found.map(([kind, index]) => kind === "n" ? nodeLink(index) : valueLink(index, say("value"))));
    if (items) panel.append(items);
  });

  search.addEventListener("keydown", event => {
    if (event.key === "Enter" && found.length) reveal(...found[0]);
    if (event.key === "Escape") { search.value = ""; showSelected(); canvas.focus(); }
  });

  // -- the address: #node=NAME, #value=NAME ----------------------------------------------------------------------

  function remember() {
    const item = selected && (selected.list === "n" ? nodes : selected.list === "v" ? values : null);
    const name = item ? item[selected.index].name : "";
    const hash = name ? `#${selected.list === "n" ? "node" : "value"}=${encodeURIComponent(name)}` : " ";
    try { history.replaceState(null, "", hash.trim() || location.pathname + location.search); } catch { /* in a frame */ }
  }

  function followAddress() {
    const [, kind, name] = /^#(node|value)=(.*)$/.exec(location.hash) || [];
    if (!kind) return;
    let wanted = name;
    try { wanted = decodeURIComponent(name); } catch { /* as it is */ }
    const index = (kind === "node" ? nodes : values).findIndex(item => item.name === wanted);
    if (index >= 0) reveal(kind === "node" ? "n" : "v", index);
  }

  // -- mouse, touch, keys ----------------------------------------------------------------------------------------

  /** What is at a point of the canvas: {box, onButton} or {edge}; null for nothing. */
  function hit(atX, atY) {
    const shown = prepared(scene), px = x + atX / scale, py = y + atY / scale, reach = 5 / scale;
    const under = shown.boxGrid.find([px, py, px, py]).map(number => shown.boxes[number]).reverse();
    const onButton = box => box[B.target] >= 0 && scale >= TITLES_FROM
      && Math.abs(px - buttonAt(box)[0]) < BUTTON / 2 && Math.abs(py - buttonAt(box)[1]) < HEADER / 2;
    const card = under.find(box => box[B.kind] !== CONTAINER);
    if (card) return {box: card, onButton: onButton(card)};
    const title = under.find(box => py < box[B.y] + HEADER);
    if (title) return {box: title, onButton: onButton(title)};
    let nearest = null, least = reach;
    for (const number of shown.edgeGrid.find([px - reach, py - reach, px + reach, py + reach])) {
      const distance = distanceTo(shown.edges[number][E.points], px, py);
      if (distance < least) [nearest, least] = [shown.edges[number], distance];
    }
    return nearest ? {edge: nearest} : under.length ? {box: under[0], onButton: false} : null;
  }

  function distanceTo(points, px, py) {
    let least = Infinity, lastX = points[0], lastY = points[1];
    for (let i = 2; i < points.length; i += 6) {
      const fromX = lastX, fromY = lastY, [ax, ay, bx, by, endX, endY] = points.slice(i, i + 6);
      for (let step = 1; step <= 12; step++) {
        const t = step / 12, u = 1 - t;
        const toX = u * u * u * fromX + 3 * u * u * t * ax + 3 * u * t * t * bx + t * t * t * endX;
        const toY = u * u * u * fromY + 3 * u * u * t * ay + 3 * u * t * t * by + t * t * t * endY;
        const dx = toX - lastX, dy = toY - lastY, along = dx * dx + dy * dy;
        const share = along ? Math.max(0, Math.min(1, ((px - lastX) * dx + (py - lastY) * dy) / along)) : 0;
        least = Math.min(least, Math.hypot(lastX + share * dx - px, lastY + share * dy - py));
        [lastX, lastY] = [toX, toY];
      }
    }
    return least;
  }

  const pointers = new Map();
  let moved = 0;

  canvas.addEventListener("pointerdown", event => {
    pointers.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
    if (pointers.size === 1) moved = 0;
  });

  canvas.addEventListener("pointermove", event => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      const under = hit(event.offsetX, event.offsetY);
      canvas.style.cursor = under && (under.edge || under.box[B.kind] !== CONTAINER || under.onButton) ? "pointer" : "grab";
      return;
    }
    moved += Math.hypot(event.clientX - before.clientX, event.clientY - before.clientY);
    if (pointers.size === 2) {
      const other = [...pointers.values()].find(one => one.pointerId !== event.pointerId);
      const gap = one => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
      zoomBy(gap(event) / gap(before), (event.offsetX + other.offsetX) / 2, (event.offsetY + other.offsetY) / 2);
    } else if (moved > 3) {
      x -= (event.clientX - before.clientX) / scale;
      y -= (event.clientY - before.clientY) / scale;
      canvas.style.cursor = "grabbing";
      repaint();
    }
    pointers.set(event.pointerId, event);
  });

  function released(event) {
    const alone = pointers.size === 1;
    pointers.delete(event.pointerId);
    canvas.style.cursor = "grab";
    if (event.type !== "pointerup" || !alone || moved > 3) return;
    const under = hit(event.offsetX, event.offsetY);
    if (!under) select(null);
    else if (under.edge) select("v", under.edge[E.value]);
    else if (under.onButton) toggle(under.box);
    else select(under.box[B.list], under.box[B.index]);
  }
  canvas.addEventListener("pointerup", released);
  canvas.addEventListener("pointercancel", released);

  canvas.addEventListener("dblclick", event => {
    const under = hit(event.offsetX, event.offsetY);
    if (under && under.box && !under.onButton) toggle(under.box);
  });

  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 30 : 1;
    if (event.ctrlKey || event.metaKey) {
      const delta = Math.max(-40, Math.min(40, event.deltaY * unit));  // a step of a wheel is more than one of a touchpad
      zoomBy(Math.exp(-delta * 0.008), event.offsetX, event.offsetY);
      return;
    }
    const [acrossX, acrossY] = event.shiftKey && !event.deltaX ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
    x += acrossX * unit / scale;
    y += acrossY * unit / scale;
    repaint();
  }, {passive: false});

  addEventListener("keydown", event => {
    if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 80 / scale, onCanvas = event.target === canvas || event.target === document.body;
    const keys = {
      "/": () => search.focus(), f: fit, F: fit, "0": fit, Escape: () => select(null),
      "+": () => zoomBy(1.3), "=": () => zoomBy(1.3), "-": () => zoomBy(1 / 1.3),
    };
    if (onCanvas) Object.assign(keys, {
      ArrowLeft: () => { x -= step; }, ArrowRight: () => { x += step; },
      ArrowUp: () => { y -= step; }, ArrowDown: () => { y += step; },
      Enter: () => {
        const at = selected ? boxOf(scene, selected.list, selected.index) : -1;
        if (at >= 0) toggle(data.scenes[scene].boxes[at]);
      },
    });
    const run = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    if (!run) return;
    event.preventDefault();
    run();
    repaint();
  });

  // -- start -----------------------------------------------------------------------------------------------------

  function resize() {
    const ratio = devicePixelRatio || 1, middleX = x + width / 2 / scale, middleY = y + height / 2 / scale;
    width = Math.max(1, view.clientWidth);
    height = Math.max(1, view.clientHeight);
    if (x === fitted.x && y === fitted.y && scale === fitted.scale) {
      fit(fitted.readable);
    } else { // what is in the middle stays there
      x = middleX - width / 2 / scale;
      y = middleY - height / 2 / scale;
    }
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    paint();
  }

  readColors();
  fit(true);
  resize();
  showSelected();
  followAddress();
  paint();  // where the address leads, before the page counts as loaded
  new ResizeObserver(resize).observe(view);
  addEventListener("hashchange", followAddress);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); repaint(); });
})();
