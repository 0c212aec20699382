// Live updates and keys. Every page works without this file.
"use strict";

(() => {
  const FIRST_RETRY_MS = 1000;
  const LONGEST_RETRY_MS = 30000;
  const SILENT_MS = 25000;
  const FETCH_MS = 10000;
  const REFRESH_MS = 60000;
  const CHANGED_MS = 5000;

  // --- Live updates: /events repeats the mark of the present state. A page with another mark is fetched again and
  // merged into this one.

  const main = document.getElementById("content");
  const notice = document.getElementById("notice");
  const age = document.getElementById("age");
  const state = document.querySelector("[data-live-state]");
  let events = null;
  let wanted = "";
  let retryMs = FIRST_RETRY_MS;
  let retry = 0;
  let silent = 0;
  let refreshMs = FIRST_RETRY_MS;
  let refreshAgain = 0;
  let fetching = false;
  let live = false;

  function sayState(value) {
    live = value;
    showState();
  }

  // A page below a notice is not live, although its stream is open.
  function showState() {
    if (!state) return;
    const current = live && !notice.textContent;
    const link = document.createElement("a");
    link.href = location.href;
    link.textContent = "Reload";
    state.replaceChildren(document.createTextNode(current ? "Live" : "Not live. "), ...(current ? [] : [link]));
    state.dataset.liveState = current ? "on" : "off";
  }

  function say(text) {
    if (notice.textContent !== text) {
      notice.textContent = text;
      showState();
    }
    notice.parentElement.hidden = !text;
    sayAge();
  }

  // Below a notice stands how old the page is. The age is no part of the notice, so that it is not read out each time.
  function sayAge() {
    const time = document.querySelector(".bottom time");
    if (!time || !notice.textContent) return;
    const seconds = Math.round(Number(time.dataset.age) + (performance.now() - loaded) / 1000);
    const text = seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
    age.textContent = `The page shows what was known at ${time.textContent}, ${text} ago.`;
  }

  function edited(form) {
    return [...form.elements].some((each) =>
      each.type === "checkbox" || each.type === "radio" ? each.checked !== each.defaultChecked
        : each.options ? [...each.options].some((option) => option.selected !== option.defaultSelected && each.size > 1)
          : "defaultValue" in each && each.value !== each.defaultValue);
  }

  // What a visitor reads, without the ages that pass by themselves.
  const WATCHED = "td, tbody th, .figure, .squares a, .tile, .answers dd";

  function reading(node) {
    const copy = node.cloneNode(true);
    copy.querySelectorAll("time").forEach((each) => each.remove());
    return `${copy.textContent.replace(/\s+/g, " ")} ${node.className} ${node.getAttribute("title") || ""}`;
  }

  function mark(nodes) {
    for (const node of nodes) node.dataset.changed = "";
    setTimeout(() => nodes.forEach((node) => delete node.dataset.changed), CHANGED_MS);
  }

  // A form that the visitor works in stays as it is. So do opened details.
  function mayMorph(node) {
    return !(node instanceof HTMLFormElement && (node.contains(document.activeElement) || edited(node)));
  }

  function merge(page) {
    const fresh = page.getElementById("content");
    if (!fresh || !fresh.dataset.live) return;
    const changed = [];
    main.querySelectorAll("[data-changed]").forEach((each) => delete each.dataset.changed);
    Idiomorph.morph(main, fresh, {
      morphStyle: "outerHTML",
      ignoreActiveValue: true,
      restoreFocus: true,
      callbacks: {
        beforeNodeMorphed: (node, other) => {
          if (!mayMorph(node)) return false;
          if (node.matches?.(WATCHED) && other.matches?.(WATCHED) && reading(node) !== reading(other)) changed.push(node);
          return true;
        },
        afterNodeAdded: (node) => {
          if (node.matches?.("tbody tr")) changed.push(...node.children);
          else if (node.matches?.("li")) changed.push(node.firstElementChild ?? node);
        },
        beforeAttributeUpdated: (name, node) => !(name === "open" && node.nodeName === "DETAILS"),
      },
    });
    mark(changed);
    const time = page.querySelector(".bottom time");
    if (time) document.querySelector(".bottom time").replaceWith(time);
    loaded = performance.now();
    addLocalTimes();
    showCopyButtons();
    fitTables();
    say(page.getElementById("notice").textContent);
  }

  // Beside each time in UTC stands the time of the visitor, unless that is UTC.
  function addLocalTimes() {
    for (const each of document.querySelectorAll("time[datetime]")) {
      const then = new Date(each.dateTime);
      if (Number.isNaN(then.getTime()) || !then.getTimezoneOffset()) continue;
      const local = then.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
      if (each.title && !each.title.includes(" · ")) each.title += ` · ${local} local`;
      if (each.dataset.age) each.dataset.local = then.toLocaleTimeString();
    }
  }

  async function refresh() {
    if (fetching || document.hidden) return;
    fetching = true;
    clearTimeout(refreshAgain);
    const begun = performance.now();
    const address = location.href;
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(FETCH_MS) });
      const text = await answer.text();
      if (address === location.href) {
        const page = new DOMParser().parseFromString(text, "text/html");
        if (answer.redirected && new URL(answer.url).pathname !== location.pathname) location.reload();
        else if (answer.ok) merge(page);
        else say(page.querySelector(".reason")?.textContent || `The page cannot be updated: status ${answer.status}.`);
      }
    } catch {
      say("The console cannot be reached.");
    }
    fetching = false;
    // A page that takes long is fetched less often, so that changes in a large fleet do not keep the browser busy. A
    // page that still has another mark is fetched again, ever less often.
    if (current()) refreshMs = FIRST_RETRY_MS;
    else refreshAgain = setTimeout(() => current() || refresh(), Math.max(refreshMs, 4 * (performance.now() - begun)));
    refreshMs = Math.min(2 * refreshMs, LONGEST_RETRY_MS);
    if (events) sayState(current());
  }

  // While the console does not know the state, it sends no mark.
  function current() {
    return !wanted || main.dataset.mark === wanted;
  }

  function listen() {
    clearTimeout(retry);
    if (events || document.hidden) return;
    events = new EventSource("/events");
    hear();
    events.addEventListener("state", (event) => {
      hear();
      retryMs = FIRST_RETRY_MS;
      wanted = JSON.parse(event.data);
      if (current()) sayState(true);
      else if (!fetching) refresh();
    });
    events.addEventListener("notice", (event) => say(JSON.parse(event.data)));
    events.addEventListener("error", lose);
  }

  // A stream that says nothing for a while is dead, also if its connection is not.
  function hear() {
    clearTimeout(silent);
    silent = setTimeout(lose, SILENT_MS);
  }

  async function lose() {
    stop();
    sayState(false);
    retry = setTimeout(listen, retryMs * (0.5 + Math.random()));
    retryMs = Math.min(2 * retryMs, LONGEST_RETRY_MS);
    try {
      // Streams end now and then, and may be too many. Only a console that does not answer at all is lost.
      await fetch("/static/icon.svg", { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(FETCH_MS) });
    } catch {
      say("The console cannot be reached.");
    }
  }

  function stop() {
    clearTimeout(silent);
    events?.close();
    events = null;
  }

  // The header of a table that fits stays in view while the page scrolls.
  function fitTables() {
    for (const each of document.querySelectorAll(".table")) {
      delete each.dataset.fits;
      if (each.scrollWidth <= each.clientWidth) each.dataset.fits = "";
    }
  }

  let loaded = performance.now();
  addLocalTimes();
  fitTables();
  addEventListener("resize", fitTables);
  setInterval(() => {
    sayAge();
    // Ages and deadlines pass without a change of the state.
    if (events && performance.now() - loaded > REFRESH_MS) refresh();
  }, 10000);
  sayAge();

  if (main?.dataset.live && window.Idiomorph && window.EventSource) {
    listen();
    // A browser opens few connections to one host, so pages that are not visible close theirs.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) {
        clearTimeout(retry);
        clearTimeout(refreshAgain);
        stop();
      } else if (!events) listen();
    });
    addEventListener("pagehide", stop);
    addEventListener("pageshow", (event) => {
      if (event.persisted) listen();
    });
  }

  // --- Keys: Ctrl-K searches everything. All others are single keys, which disturb people who use speech or hit keys by
  // accident, so a visitor switches them on (WCAG 2.1.4): "/" goes to the search field, "g" and a letter open a page, "n" and "p" turn pages, "?" opens the help.

  const KEYS = "single-keys";
  let prefix = 0;
  let keys = localStorage.getItem(KEYS) === "on";
  const button = document.querySelector("[data-keys]");

  function showKeys() {
    if (!button) return;
    button.hidden = false;
    button.textContent = keys ? "Switch single keys off" : "Switch single keys on";
  }

  button?.addEventListener("click", () => {
    keys = !keys;
    localStorage.setItem(KEYS, keys ? "on" : "off");
    showKeys();
  });
  showKeys();
  document.querySelector(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });

  // --- Copy buttons, and the color scheme that a visitor prefers to that of the system.

  function showCopyButtons() {
    for (const each of document.querySelectorAll("[data-copy][hidden]")) each.hidden = !navigator.clipboard;
  }

  document.addEventListener("click", async (event) => {
    const copied = event.target.closest?.("[data-copy]");
    if (!copied) return;
    await navigator.clipboard.writeText(copied.previousElementSibling.textContent);
    copied.textContent = "Copied";
    setTimeout(() => { copied.textContent = "Copy"; }, CHANGED_MS);
  });
  showCopyButtons();

  const THEMES = ["system", "light", "dark"];
  const theme = document.querySelector("[data-switch-theme]");

  function showTheme() {
    const wanted = localStorage.getItem("theme") ?? THEMES[0];
    if (wanted === THEMES[0]) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = wanted;
    if (!theme) return;
    theme.hidden = false;
    theme.textContent = `Colors: ${wanted}`;
  }

  theme?.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(localStorage.getItem("theme") ?? THEMES[0]) + 1) % THEMES.length];
    localStorage.setItem("theme", next);
    showTheme();
  });
  showTheme();

  function follow(selector) {
    const link = document.querySelector(selector);
    if (link) link.click();
    return Boolean(link);
  }

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      return document.querySelector(".find input")?.focus();
    }
    if (!keys || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape") return document.activeElement?.blur();
    if (event.target.closest("input, select, textarea, [contenteditable]")) return;
    const key = event.key;
    const after = Date.now() - prefix < 1500;
    prefix = 0;
    let done = false;
    if (after && /^[a-z]$/.test(key)) done = follow(`.top nav a[data-key="${key}"]`);
    else if (key === "g") prefix = Date.now();
    else if (key === "?") done = follow('.top nav a[data-key="h"]');
    else if (key === "n" || key === "p") done = follow(`.pager a[data-key="${key}"]`);
    else if (key === "/") {
      const field = document.querySelector('main input[type="search"], main form[role="search"] input[type="text"]');
      field?.focus();
      field?.select();
      done = Boolean(field);
    }
    if (done) event.preventDefault();
  });
})();
