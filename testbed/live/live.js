"use strict";
(() => {
  const part = (name) => document.getElementById(name);
  const make = (name, words, kind) => {
    const made = document.createElement(name);
    if (words !== undefined) made.textContent = words;
    if (kind) made.className = kind;
    return made;
  };
  const links = new Map();
  let over = false, down = new Set();

  const cable = async (name) => {
    const answer = await fetch("cable", { method: "POST", body: JSON.stringify({ link: name, up: down.has(name) }) });
    part("refused").textContent = answer.ok ? "" : await answer.text();
  };

  const clickable = (group, name) => {
    const wide = group.querySelector("path").cloneNode();
    wide.setAttribute("style", "fill:none;stroke:transparent;stroke-width:14;pointer-events:stroke");
    group.append(wide);
    group.closest("svg").setAttribute("role", "group");
    group.classList.add("cable");
    for (const [key, value] of [["role", "button"], ["tabindex", "0"]]) group.setAttribute(key, value);
    group.addEventListener("click", () => cable(name));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      cable(name);
    });
  };

  const scene = ({ html }) => {
    part("scene").innerHTML = html;
    const title = part("scene").firstElementChild.dataset.title;
    part("title").textContent = document.title = title;
    links.clear();
    for (const group of part("scene").querySelectorAll("[data-link]")) {
      const known = links.get(group.dataset.link) || [];
      links.set(group.dataset.link, [...known, group]);
    }
    part("curves").replaceChildren();
  };

  const tiles = (list) =>
    part("tiles").replaceChildren(
      ...list.map(([what, value]) => {
        const tile = make("div");
        tile.append(make("dt", what), make("dd", value));
        return tile;
      }),
    );

  const stores = (list) => {
    if (!list.length) return part("stores").replaceChildren();
    const most = Math.max(...list.map(([, size]) => size), 1e-9);
    const rows = make("dl");
    for (const [node, size] of list) {
      const bar = make("div", undefined, "bar");
      const fill = make("i");
      fill.style.width = `${(100 * size) / most}%`;
      bar.append(fill);
      rows.append(make("dt", node), bar, make("dd", `${size.toFixed(2)} MB`));
    }
    part("stores").replaceChildren(make("h3", "Striped bytes by I/O node, to it and from it, headers included"), rows);
  };

  const state = (now) => {
    part("faults").hidden = !now.network;
    part("doing").textContent = now.at_s > 0 ? `${now.doing}, ${now.at_s.toFixed(1)} s` : now.doing;
    part("done").style.width = `${100 * Math.min(1, now.done)}%`;
    part("faults").textContent = now.faults.length ? `Active faults: ${now.faults.join(", ")}` : "No active fault.";
    part("faults").classList.toggle("on", now.faults.length > 0);
    down = new Set(now.down);
    for (const [name, groups] of links) {
      const load = now.links[name];
      for (const group of groups) {
        if (now.control) {
          if (!group.classList.contains("cable")) clickable(group, name);
          group.setAttribute("aria-label", `${down.has(name) ? "repair" : "cut"} ${name}`);
        }
        group.classList.toggle("down", down.has(name));
        if (load) {
          group.querySelector("path").style.strokeWidth = down.has(name) ? 2 : load[1];
          group.dataset.load = load[0];
        }
      }
    }
    tiles(now.tiles);
    stores(now.stores);
  };

  const ended = ({ outcome, page, html }) => {
    over = true;
    source.close();
    part("done").style.width = "100%";
    part("faults").classList.remove("on");
    part("faults").textContent = "";
    const words = part("end");
    words.replaceChildren(`Run finished: ${outcome}.`);
    const link = make(html ? "a" : "code", page);
    if (html) {
      link.href = URL.createObjectURL(new Blob([html], { type: "text/html" }));
      link.target = "_blank";
    }
    if (page) words.append(" Its page: ", link);
    words.append(" What you see here is its last state.");
    words.hidden = false;
    part("doing").textContent = "Over.";
  };

  const source = new EventSource("events");
  const on = (name, act) => source.addEventListener(name, (event) => act(JSON.parse(event.data)));
  on("scene", scene);
  on("state", state);
  on("findings", ({ html }) => { part("findings").innerHTML = html; });
  on("curves", ({ html }) => { part("curves").innerHTML = html; });
  on("ended", ended);
  source.addEventListener("error", () => {
    if (over || source.readyState === EventSource.OPEN) return;
    source.close();
    ended({ outcome: "the testbed no longer answers", page: "" });
  });
})();
