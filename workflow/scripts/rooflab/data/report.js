"use strict";
// Points of the chart tell what they are: the nearest one within reach of the pointer, a line below it, or the one with focus.
(() => {
  const REACH_PX = 14;
  const told = JSON.parse(document.getElementById("marks").textContent);
  const picture = document.querySelector(".picture");
  const tip = document.getElementById("tip");
  const points = [];
  let shown = null;

  const cell = (row, text) => { row.insertCell().textContent = text; };

  function table(rows, name) {
    const made = document.createElement("table");
    made.className = name;
    for (const [left, right, own] of rows) {
      const row = made.insertRow();
      if (own) row.className = "this";
      cell(row, left);
      cell(row, right);
    }
    return made;
  }

  function hide() {
    if (shown) shown.classList.remove("shown");
    shown = null;
    tip.hidden = true;
  }

  function show(group, x, y) {
    if (shown !== group) {
      hide();
      const { title, facts, ladder } = told[group.dataset.mark];
      const head = document.createElement("strong");
      head.textContent = title;
      tip.replaceChildren(head, table(facts, "facts"));
      if (ladder.length > 1) tip.append(table(ladder, "ladder"));
      group.classList.add("shown");
      shown = group;
      tip.hidden = false;
    }
    const frame = picture.getBoundingClientRect();
    const left = Math.min(x - frame.left + 16, frame.width - tip.offsetWidth - 4);
    const above = y - frame.top - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${above > 0 ? above : y - frame.top + 16}px`;
  }

  function middle(group) {
    const box = group.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  }

  for (const group of picture.querySelectorAll("g[id]")) {
    const mark = group.id.replace(/^share:/, "");
    if (!(mark in told)) continue;
    group.dataset.mark = mark;
    group.classList.add("mark");
    group.setAttribute("tabindex", "0");
    group.setAttribute("role", "img");
    group.setAttribute("aria-label", told[mark].title);
    group.addEventListener("focus", () => show(group, ...middle(group)));
    group.addEventListener("blur", hide);
    if (group.querySelector("use")) { points.push(group); continue; }
    const line = group.querySelector("path");
    if (!line) continue;
    const wide = line.cloneNode();
    wide.style.cssText = "fill: none; stroke: transparent; stroke-width: 8; pointer-events: stroke";
    group.append(wide);
    wide.addEventListener("mousemove", (event) => { if (!near(event)) show(group, event.clientX, event.clientY); });
  }

  function near(event) {
    let best = null;
    let reach = REACH_PX;
    for (const group of points) {
      const [x, y] = middle(group);
      const away = Math.hypot(x - event.clientX, y - event.clientY);
      if (away < reach) { best = group; reach = away; }
    }
    return best;
  }

  picture.addEventListener("mousemove", (event) => {
    const group = near(event);
    if (group) show(group, event.clientX, event.clientY);
    else if (!event.target.closest(".mark")) hide();
  });
  picture.addEventListener("mouseleave", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
})();
