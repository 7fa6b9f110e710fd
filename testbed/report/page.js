"use strict";
(() => {
  const mark = (names, on) => {
    for (const name of names)
      for (const part of document.querySelectorAll(`[data-fault~="${name}"]`)) part.classList.toggle("on", on);
  };
  for (const [kind, on] of [["mouseover", true], ["mouseout", false], ["focusin", true], ["focusout", false]])
    document.addEventListener(kind, (event) => {
      const part = event.target.closest && event.target.closest("[data-fault]");
      if (part) mark(part.dataset.fault.split(" "), on);
    });
  const wide = () => {
    for (const part of document.querySelectorAll(".scroll,figure")) {
      const more = part.scrollWidth > part.clientWidth + 1;
      part.classList.toggle("more", more);
      if (more && part.tagName === "FIGURE") part.tabIndex = 0;
    }
  };
  for (const button of document.querySelectorAll("button.copy")) {
    const command = button.parentElement.querySelector("code").textContent;
    button.hidden = false;
    button.addEventListener("click", () => {
      const area = document.createElement("textarea");
      area.value = command;
      document.body.append(area);
      area.select();
      button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
      area.remove();
    });
  }
  window.addEventListener("load", wide);
  window.addEventListener("resize", wide);
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });
})();
