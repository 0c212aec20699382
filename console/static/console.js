// Live updates and keys. Every page works without this file.
"use strict";

(() => {
  const HIDDEN_RETRY_MS = 1000;
  const LONGEST_RETRY_MS = 60000;
  const LONGEST_PAUSE_MS = 30000;

  // --- Live updates: /events says that something changed; the page is fetched again and merged into this one.

  const main = document.getElementById("content");
  const notice = document.getElementById("notice");
  const state = document.querySelector("[data-live-state]");
  let events = null;
  let retryMs = HIDDEN_RETRY_MS;
  let retry = 0;
  let fetching = false;
  let changedMeanwhile = false;

  function sayState(live, text) {
    if (!state || !main.dataset.live) return;
    const link = document.createElement("a");
    link.href = location.href;
    link.textContent = "Reload";
    state.replaceChildren(document.createTextNode(text + " "), ...(live ? [] : [link]));
    state.dataset.liveState = live ? "on" : "off";
  }

  function say(text) {
    if (notice.textContent === text) return;
    notice.textContent = text;
    notice.hidden = !text;
  }

  function edited(form) {
    return [...form.elements].some((each) =>
      each.type === "checkbox" || each.type === "radio" ? each.checked !== each.defaultChecked
        : each.options ? [...each.options].some((option) => option.selected !== option.defaultSelected && each.size > 1)
          : "defaultValue" in each && each.value !== each.defaultValue);
  }

  // A form that the visitor works in stays as it is. So do opened details.
  function mayMorph(node) {
    return !(node instanceof HTMLFormElement && (node.contains(document.activeElement) || edited(node)));
  }

  function merge(page) {
    const fresh = page.getElementById("content");
    if (!fresh || !fresh.dataset.live) return;
    Idiomorph.morph(main, fresh, {
      morphStyle: "outerHTML",
      ignoreActiveValue: true,
      restoreFocus: true,
      callbacks: {
        beforeNodeMorphed: mayMorph,
        beforeAttributeUpdated: (name, node) => !(name === "open" && node.nodeName === "DETAILS"),
      },
    });
    const time = page.querySelector(".bottom time");
    if (time) document.querySelector(".bottom time").replaceWith(time);
    say(page.getElementById("notice").textContent);
    document.dispatchEvent(new CustomEvent("console:updated"));
  }

  async function refresh() {
    if (fetching) {
      changedMeanwhile = true;
      return;
    }
    fetching = true;
    const begun = performance.now();
    const address = location.href;
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html", "X-Live": "1" } });
      const text = await answer.text();
      if (address === location.href) {
        const page = new DOMParser().parseFromString(text, "text/html");
        if (answer.redirected && new URL(answer.url).pathname !== location.pathname) location.reload();
        else if (answer.ok) merge(page);
        else say(page.querySelector(".reason")?.textContent || `The page cannot be updated: status ${answer.status}.`);
      }
    } catch {
      say("The console cannot be reached. This page may be out of date.");
    } finally {
      // A page that takes long is fetched less often, so that changes in a large fleet do not keep the browser busy.
      setTimeout(() => {
        fetching = false;
        if (changedMeanwhile && !document.hidden) {
          changedMeanwhile = false;
          refresh();
        }
      }, Math.min(LONGEST_PAUSE_MS, 4 * (performance.now() - begun)));
    }
  }

  function listen() {
    clearTimeout(retry);
    if (events || document.hidden) return;
    events = new EventSource("/events");
    events.addEventListener("open", () => {
      retryMs = HIDDEN_RETRY_MS;
      sayState(true, "Live");
    });
    events.addEventListener("changed", refresh);
    events.addEventListener("notice", (event) => say(JSON.parse(event.data)));
    events.addEventListener("error", () => {
      stop();
      sayState(false, "Not live.");
      retry = setTimeout(listen, retryMs * (0.5 + Math.random()));
      retryMs = Math.min(2 * retryMs, LONGEST_RETRY_MS);
    });
  }

  function stop() {
    events?.close();
    events = null;
  }

  if (main?.dataset.live && window.Idiomorph && window.EventSource) {
    listen();
    // A browser opens few connections to one host, so pages that are not visible close theirs.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) {
        clearTimeout(retry);
        stop();
      } else if (!events) {
        refresh();
        listen();
      }
    });
    addEventListener("pagehide", stop);
    addEventListener("pageshow", (event) => {
      if (event.persisted) {
        refresh();
        listen();
      }
    });
  }

  // --- Keys: "/" goes to the search field, "g" and a letter open a page, "n" and "p" turn pages, "?" opens the help.

  let prefix = 0;

  function follow(selector) {
    const link = document.querySelector(selector);
    if (link) link.click();
    return Boolean(link);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
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
