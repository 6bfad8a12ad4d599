// Ottla console: what HTML cannot do by itself. No dependency beside htmx and uPlot.
(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  const BACKGROUND = { "x-background": "true" }; // does not keep a session from timing out
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Numbers and times.
  const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const rate = (value) => {
    for (const [unit, factor] of [["M", 1e6], ["k", 1e3]]) {
      if (value >= factor * 10) return (value / factor).toFixed(0) + unit;
      if (value >= factor) return (value / factor).toFixed(1) + unit;
    }
    return value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1);
  };
  const bytes = (value) => {
    for (const unit of ["B", "KiB", "MiB", "GiB"]) {
      if (Math.abs(value) < 1024) return (unit === "B" || value >= 100 ? value.toFixed(0) : value.toFixed(1)) + " " + unit;
      value /= 1024;
    }
    return value.toFixed(1) + " TiB";
  };
  const seconds = (value) => value < 60 ? +value.toFixed(1) + " s" : value < 3600 ? Math.floor(value / 60) + " min" : (value / 3600).toFixed(1) + " h";
  const shown = { rate, bytes, number: (value) => number.format(value) };
  const pad = (value, width = 2) => String(value).padStart(width, "0");
  const localTimes = (root) => $$("time[datetime]", root).forEach((each) => {
    const when = new Date(each.dateTime);
    if (isNaN(when)) return;
    each.title = each.dateTime;
    each.textContent = `${when.getFullYear()}-${pad(when.getMonth() + 1)}-${pad(when.getDate())} ${pad(when.getHours())}:${pad(when.getMinutes())}:${pad(when.getSeconds())}.${pad(when.getMilliseconds(), 3)}`;
  });

  // Theme: the system's, or the one chosen; a cookie, so that the first paint is right.
  const isDark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const switchTheme = () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    document.cookie = `theme=${theme}; path=/; max-age=31536000; samesite=lax`;
    $$(".plot").forEach(draw);
  };

  // Clicks: dialogs, menu, copy, toggles.
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-open],[data-close],[data-copy],.menu,#theme,#all-filters,#save-filter,#search-cancel,#tail-pause,#scan-start,#scan-cancel,[data-range]");
    $$("details.more[open]").forEach((each) => { if (!each.contains(event.target)) each.open = false; });
    if (!target) return;
    if (target.dataset.open) { const dialog = document.getElementById(target.dataset.open); if (dialog) dialog.showModal(); }
    else if ("close" in target.dataset) target.closest("dialog").close();
    else if ("copy" in target.dataset) copyValue(target);
    else if (target.id === "theme") switchTheme();
    else if (target.id === "all-filters") { $("#filters").classList.add("open"); $("#filters [name=partition]").focus(); }
    else if (target.id === "save-filter") saveFilter();
    else if (target.id === "search-cancel") stopSearch("cancelled");
    else if (target.id === "tail-pause") pauseTail(target);
    else if (target.id === "scan-start") startScan($("#scan"));
    else if (target.id === "scan-cancel") stopScan("cancelled");
    else if (target.dataset.range) setRange(target.dataset.range);
    else if (target.classList.contains("menu")) {
      const isOpen = $("#side").classList.toggle("open");
      target.setAttribute("aria-expanded", String(isOpen));
    }
  });
  document.addEventListener("click", (event) => { // a second click on a message closes it
    const link = event.target.closest("[data-toggle]");
    const cell = link && document.getElementById(link.dataset.toggle);
    if (cell && cell.hasChildNodes()) { cell.replaceChildren(); event.preventDefault(); event.stopImmediatePropagation(); }
  }, true);
  const copyValue = async (button) => {
    const source = $(`[data-copy-source="${button.dataset.copy}"]`, button.closest(".one"));
    const label = button.textContent;
    button.textContent = await copied(source) ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => { button.textContent = label; }, 2000);
  };
  const copied = async (source) => { // without https, browsers have no clipboard but the selection's
    if (navigator.clipboard) { try { await navigator.clipboard.writeText(source.textContent); return true; } catch { /* not allowed */ } }
    getSelection().selectAllChildren(source);
    return document.execCommand("copy");
  };

  // Confirmations: a question in a dialog of the page.
  let confirmed = null;
  document.addEventListener("htmx:confirm", (event) => {
    if (!event.detail.question) return;
    event.preventDefault();
    const dialog = $("#confirm");
    $("#confirm-text").textContent = event.detail.question;
    confirmed = () => event.detail.issueRequest(true);
    dialog.returnValue = "";
    dialog.showModal();
  });
  document.addEventListener("htmx:beforeRequest", (event) => { // a question's button stays where it is
    if (confirmed && !event.detail.requestConfig.triggeringEvent) event.preventDefault();
  });
  document.addEventListener("close", (event) => {
    if (event.target.id !== "confirm") return;
    const go = confirmed;
    confirmed = null;
    if (go && event.target.returnValue === "yes") go();
  }, true);

  // Times are typed as they are shown, in the browser's zone; what is sent, and shared as a link, names the offset.
  const TIME = "\\d{4}-\\d\\d-\\d\\d(?:[T ]\\d\\d:\\d\\d(?::\\d\\d(?:[.,]\\d+)?)?)?";
  const withOffset = (text) => {
    const when = new Date(text.length > 10 ? text.replace(" ", "T").replace(",", ".") : text + "T00:00");
    if (isNaN(when)) return text;
    const minutes = -when.getTimezoneOffset();
    return `${text.length > 10 ? text.replace(" ", "T") : text + "T00:00"}${minutes < 0 ? "-" : "+"}${pad(Math.floor(Math.abs(minutes) / 60))}:${pad(Math.abs(minutes) % 60)}`;
  };
  const WHOLE_TIME = new RegExp(`^\\s*(${TIME})\\s*$`);
  const TIMES = new RegExp(`'(${TIME})'`, "g");
  const COMPARED = new RegExp(`\\btimestamp\\s*(?:not\\s+)?(?:[<>=!]=?|between|in)\\s*\\(?\\s*'${TIME}'(?:\\s*(?:,|and)\\s*'${TIME}')*|'${TIME}'\\s*[<>=!]=?\\s*timestamp\\b`, "gi");
  const nameOffsets = (form) => {
    $$("[data-time]", form).forEach((field) => { field.value = field.value.replace(WHOLE_TIME, (_, text) => withOffset(text)); });
    $$("[data-times]", form).forEach((field) => { field.value = field.value.replace(COMPARED, (part) => part.replace(TIMES, (_, text) => `'${withOffset(text)}'`)); });
  };
  document.addEventListener("submit", (event) => nameOffsets(event.target), true);
  document.addEventListener("change", (event) => {
    if (event.target.id === "cluster-choice") location.href = "/c/" + event.target.value;
  });

  // A click on a message opens it, unless it selects text.
  document.addEventListener("click", (event) => {
    const row = event.target.closest("tr.message");
    if (row && !event.target.closest("a,button") && getSelection().isCollapsed) $("[data-toggle]", row).click();
  });

  // Keys.
  let isGoing = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "Escape" && isTyping) { event.target.blur(); return; }
    if (isTyping || $("dialog[open]")) return;
    if (isGoing) {
      isGoing = false;
      const link = $(`.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
    } else if (event.key === "g") { isGoing = true; setTimeout(() => { isGoing = false; }, 1200); }
    else if (event.key === "/") { const find = $("[data-find]"); if (find) { event.preventDefault(); find.focus(); find.select(); } }
    else if (event.key === "?") $("#help").showModal();
  });

  // What moves: the state of the cluster and its numbers.
  const lost = (message) => {
    const banner = $("#lost");
    banner.textContent = message;
    banner.hidden = !message;
  };
  let wasLost = false, events = null;
  const follow = () => {
    const source = document.body.dataset.events;
    if (!source || !window.EventSource || document.hidden || events) return;
    events = new EventSource(source);
    events.addEventListener("state", (event) => {
      const state = JSON.parse(event.data);
      if (!state.ok) { wasLost = true; lost("No broker answers: " + state.message + " This page recovers by itself."); return; }
      lost("");
      if (wasLost || $("[data-recovers]")) { wasLost = false; location.reload(); }
    });
    events.addEventListener("numbers", (event) => {
      const numbers = JSON.parse(event.data);
      $$("[data-live]").forEach((each) => {
        const value = numbers[each.dataset.live];
        if (value !== undefined) each.textContent = (shown[each.dataset.format] || String)(value);
      });
      $$(".plot").forEach(draw);
    });
    events.onerror = () => {
      if (!events) return;
      if (events.readyState === EventSource.CLOSED) { events = null; setTimeout(follow, 2000); probe(); }
      else lost("The console cannot be reached; trying again.");
    };
    events.onopen = () => lost("");
  };
  const unfollow = () => { if (events) { events.close(); events = null; } };
  // Browsers open six connections to a host: pages that are not looked at give theirs back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { unfollow(); restTail(); }
    else { follow(); if (isResting) startTail($("#tail")); }
  });
  addEventListener("pagehide", unfollow);
  addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
  const probe = () => fetch(document.body.dataset.base, { redirect: "manual", headers: BACKGROUND }).then((answer) => {
    if (answer.type === "opaqueredirect") location.href = "/login?to=" + encodeURIComponent(location.pathname); // the session is over
    else if (answer.ok && $("[data-recovers]")) location.reload();
  }).catch(() => {});

  // Plots.
  const units = { "records/s": (v) => rate(v), records: (v) => rate(v), bytes, seconds, ms: (v) => seconds(v / 1000) };
  const axis = (style) => ({ stroke: style.getPropertyValue("--muted"), grid: { stroke: style.getPropertyValue("--line-soft"), width: 1 }, ticks: { show: false }, font: "11px system-ui", gap: 4 });
  const STEPS = { // on axes: round numbers of KiB, of minutes and hours
    bytes: Array.from({ length: 50 }, (_, power) => 2 ** power),
    seconds: [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, ...[1, 2, 5, 10, 20, 30, 60, 120, 240, 720, 1440, 2880, 14400, 144000, 1440000].map((minutes) => minutes * 60)],
  };
  const clockOf = (at) => { const when = new Date(at * 1000); return pad(when.getHours()) + ":" + pad(when.getMinutes()) + ":" + pad(when.getSeconds()); };
  async function draw(figure) {
    if (!window.uPlot || figure.dataset.busy) return;
    figure.dataset.busy = "1";
    try {
      const base = "/api/clusters/" + document.body.dataset.base.slice(3);
      const answer = await fetch(`${base}/history?series=${encodeURIComponent(figure.dataset.series)}&hours=${figure.dataset.hours}`, { headers: BACKGROUND });
      if (!answer.ok) return;
      const found = await answer.json();
      const canvas = $(".canvas", figure);
      if (found.times.length < 2) { if (!canvas.hasChildNodes()) canvas.innerHTML = '<p class="none">There are no samples yet.</p>'; return; }
      const style = getComputedStyle(document.documentElement);
      const accent = style.getPropertyValue("--accent").trim();
      const unit = units[figure.dataset.unit] || String;
      const data = [found.times, ...found.values];
      const theme = isDark() ? "dark" : "light";
      const say = (at) => { // the values under the pointer, or the newest ones
        const parts = found.series.map((name, i) => [name.split(".").slice(1, -1).join("."), data[i + 1][at ?? data[i + 1].findLastIndex((each) => each !== null)]]);
        const texts = parts.map(([name, value]) => (parts.length > 1 ? name + ": " : "") + (value === null || value === undefined ? "–" : unit(value) + (figure.dataset.unit.startsWith("records") ? " " + figure.dataset.unit : "")));
        const when = at === null || at === undefined ? "" : clockOf(data[0][at]) + "  ";
        $(".now", figure).textContent = when + texts.join(", ");
      };
      figure.say = say;
      say(null);
      if (figure.plot && figure.drawnIn === theme && figure.plot.width === canvas.clientWidth) { figure.plot.setData(data); return; }
      if (figure.plot) figure.plot.destroy();
      canvas.replaceChildren();
      const y = { ...axis(style), size: 56, values: (_, ticks) => ticks.map(unit) };
      const steps = STEPS[figure.dataset.unit];
      if (steps) y.incrs = steps;
      const clock = (_, ticks) => ticks.map((at) => { const when = new Date(at * 1000); const text = pad(when.getHours()) + ":" + pad(when.getMinutes()); return ticks.length > 1 && ticks[1] - ticks[0] < 60 ? text + ":" + pad(when.getSeconds()) : text; });
      figure.plot = new uPlot({
        width: canvas.clientWidth, height: 130, legend: { show: false }, cursor: { y: false, points: { show: found.series.length === 1 } },
        hooks: { setCursor: [(plot) => figure.say(plot.cursor.idx)] },
        scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [{ ...axis(style), size: 26, space: 70, values: clock }, y],
        series: [{}, ...found.series.map((name, at) => ({ label: name, stroke: at ? style.getPropertyValue("--series-" + (at % 5 + 1)).trim() : accent, width: 1.5, spanGaps: true, fill: found.series.length === 1 ? accent + "1a" : undefined, points: { show: false } }))],
      }, data, canvas);
      figure.drawnIn = theme;
    } finally { delete figure.dataset.busy; }
  }

  const setRange = (hours) => {
    localStorage.setItem("ottla.hours", hours);
    $$("[data-range]").forEach((each) => each.setAttribute("aria-pressed", String(each.dataset.range === hours)));
    $$(".plot").forEach((each) => { each.dataset.hours = hours; draw(each); });
  };

  // Search and tail.
  const addRows = (html, atTop, most) => {
    const body = $("#messages");
    const holder = document.createElement("tbody");
    holder.innerHTML = html; // rendered and escaped by the server
    localTimes(holder);
    const rows = [...holder.children];
    if (atTop) body.prepend(...rows); else body.append(...rows);
    rows.forEach((each) => htmx.process(each));
    while (most && body.children.length > most) body.lastElementChild.remove();
  };
  let searching = null;
  const stopSearch = (word) => {
    if (searching) { searching.close(); searching = null; }
    const cancel = $("#search-cancel");
    if (cancel) cancel.hidden = true;
    if (word) $("#search-text").textContent += ", " + word;
  };
  const startSearch = (box) => {
    searching = new EventSource(box.dataset.src);
    searching.addEventListener("rows", (event) => addRows(JSON.parse(event.data), false));
    searching.addEventListener("progress", (event) => {
      const p = JSON.parse(event.data);
      $("#search-bar").value = p.total ? p.scanned / p.total : 1;
      $("#search-text").textContent = `${number.format(p.found)} found in ${number.format(p.scanned)} of ${number.format(p.total)} records, ${rate(p.rate)} records/s`;
      if (p.partly) $("#search-text").textContent += `; ${number.format(p.partly)} searched only in the first 32 MiB`;
      if (p.done) {
        stopSearch(p.cursor ? "" : "done");
        $("#nothing").hidden = p.found > 0;
        if (p.cursor) { const more = document.createElement("a"); more.className = "button small-button"; more.href = box.dataset.page + "&cursor=" + encodeURIComponent(p.cursor); more.textContent = "Search further"; box.append(more); }
      }
    });
    searching.addEventListener("problem", (event) => { $("#search-text").textContent = JSON.parse(event.data); stopSearch(""); });
    searching.addEventListener("end", () => stopSearch(""));
    searching.onerror = () => { if (searching && searching.readyState === EventSource.CLOSED) { $("#search-text").textContent = "the search ended: see the expression"; stopSearch(""); } else stopSearch("interrupted"); };
    addEventListener("pagehide", () => stopSearch(""));
  };
  let tailing = null, isResting = false, tailTotals = { written: 0, skipped: 0 };
  const restTail = () => { if (tailing) { tailing.close(); tailing = null; isResting = true; } };
  const tailState = (word, style) => { $("#tail-state").textContent = word; $("#tail-state").className = "badge " + style; };
  const startTail = (box) => {
    isResting = false;
    tailing = new EventSource(box.dataset.src);
    tailing.addEventListener("rows", (event) => addRows(JSON.parse(event.data), true, 400));
    tailing.addEventListener("tick", (event) => {
      const tick = JSON.parse(event.data);
      tailTotals.written += tick.written; tailTotals.skipped += tick.skipped;
      const since = tailTotals.written ? `${number.format(tailTotals.written)} written since, ${number.format(tailTotals.skipped)} not shown` : "waiting for new messages";
      $("#tail-text").textContent = `${rate(tick.rate)} records/s; ${since}`;
    });
    tailing.addEventListener("problem", (event) => { $("#tail-text").textContent = JSON.parse(event.data); });
    tailing.onerror = () => tailState("interrupted", "bad");
    tailing.onopen = () => tailState("live", "good");
    addEventListener("pagehide", () => tailing && tailing.close());
  };
  const pauseTail = (button) => {
    const box = $("#tail");
    if (tailing) { tailing.close(); tailing = null; button.textContent = "Continue"; tailState("paused", "calm"); }
    else { startTail(box); button.textContent = "Pause"; }
  };

  // Statistics of a topic.
  let scanning = null;
  const stopScan = (word) => {
    if (scanning) { scanning.close(); scanning = null; }
    $("#scan-cancel").hidden = true; $("#scan-start").hidden = false;
    if (word) $("#scan-text").textContent += ", " + word;
  };
  const startScan = (box) => {
    scanning = new EventSource(box.dataset.src);
    $("#scan-start").hidden = true; $("#scan-cancel").hidden = $("#scan-bar").hidden = false;
    $("#scan-text").textContent = "scanning";
    scanning.addEventListener("statistics", (event) => {
      const { numbers, html } = JSON.parse(event.data);
      $("#statistics").innerHTML = html; // rendered and escaped by the server
      localTimes($("#statistics"));
      $("#scan-bar").value = numbers.total ? numbers.scanned / numbers.total : 1;
      $("#scan-text").textContent = `${number.format(numbers.scanned)} of ${number.format(numbers.total)} offsets, ${rate(numbers.rate)} records/s`;
      if (numbers.done) stopScan("done");
    });
    scanning.addEventListener("problem", (event) => { $("#scan-text").textContent = JSON.parse(event.data); stopScan(""); });
    scanning.onerror = () => stopScan("interrupted");
    addEventListener("pagehide", () => scanning && scanning.close());
  };

  // Filters that were saved, in this browser.
  const filterKey = () => "ottla.filters." + $("#filters").dataset.topic;
  const savedFilters = () => { try { return JSON.parse(localStorage.getItem(filterKey())) || []; } catch { return []; } };
  const showSaved = () => {
    const box = $("#saved");
    if (!box) return;
    const found = savedFilters();
    box.hidden = !found.length;
    box.replaceChildren(...found.flatMap((each, at) => {
      const link = document.createElement("a");
      link.href = location.pathname + "?" + each.query;
      link.textContent = each.name;
      const forget = document.createElement("button");
      forget.className = "quiet small-button"; forget.type = "button"; forget.textContent = "×";
      forget.setAttribute("aria-label", "Forget " + each.name);
      forget.onclick = () => { localStorage.setItem(filterKey(), JSON.stringify(savedFilters().filter((_, i) => i !== at))); showSaved(); };
      return [link, forget];
    }));
  };
  const saveFilter = () => {
    const form = $("#filters");
    nameOffsets(form);
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== "")).toString();
    const name = ["where", "text", "key", "header", "columns", "at"].map((each) => form.elements[each].value).find(Boolean) || form.elements.start.value;
    localStorage.setItem(filterKey(), JSON.stringify([...savedFilters(), { name: name.slice(0, 60), query }]));
    showSaved();
  };

  const showZone = () => { $("#zone").textContent = "Times in " + Intl.DateTimeFormat().resolvedOptions().timeZone.replaceAll("_", " "); };
  const ready = () => {
    localTimes(document);
    showZone();
    setRange(localStorage.getItem("ottla.hours") || "1");
    showSaved();
    const search = $("#search"), tail = $("#tail");
    if (search) startSearch(search);
    if (tail && document.hidden) isResting = true; else if (tail) startTail(tail);
    addEventListener("resize", () => $$(".plot").forEach(draw));
  };
  document.addEventListener("htmx:afterSwap", (event) => { if ($("[data-reload]", event.target)) location.reload(); localTimes(event.target); if (event.target === document.body) { showZone(); showSaved(); $$(".plot").forEach(draw); } });
  ready();
  follow();
})();
