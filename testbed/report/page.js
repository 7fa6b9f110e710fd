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
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });
})();
