// Fetches the page again and changes only what differs, so that focus, scroll position, selected
// text and opened parts stay. No library, no content of other sites; without it the page reloads.
"use strict";

const EVERY_MS = 3000;
const PATIENCE_MS = 10000;
const pause = document.getElementById("pause");
const offline = document.getElementById("offline");
const said = document.getElementById("said");
let paused = false;
let lastGood = new Date();

/** Two elements with the same key are the same element at two times. */
function key(node) {
  return node.nodeType === Node.ELEMENT_NODE ? `${node.nodeName}#${node.id}` : node.nodeName;
}

/** Makes `old` equal to `fresh`, except for what the reader has opened or closed. */
function change(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(old.nodeName === "DETAILS" && name === "open")) {
      old.removeAttribute(name);
    }
  }
  for (const { name, value } of fresh.attributes) {
    if (old.nodeName === "DETAILS" && name === "open") continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  changeChildren(old, fresh);
}

/** The longest rising subsequence of the numbers, as indexes. */
function rising(numbers) {
  const best = [];
  numbers.forEach((number, i) => {
    let before = -1;
    for (let j = 0; j < i; j++) {
      if (numbers[j] < number && (before < 0 || best[j].length > best[before].length)) before = j;
    }
    best.push({ before, length: before < 0 ? 1 : best[before].length + 1 });
  });
  let at = best.reduce((most, one, i) => (most < 0 || one.length > best[most].length ? i : most), -1);
  const found = new Set();
  for (; at >= 0; at = best[at].before) found.add(at);
  return found;
}

/** Moves as few children as possible: a child that is moved loses its focus and selection. */
function changeChildren(old, fresh) {
  const named = new Map();
  for (const child of old.children) if (child.id) named.set(key(child), child);
  const children = [...old.children];
  const kept = [...fresh.children].map((one) => one.id && named.get(key(one))).filter(Boolean);
  const stay = rising(kept.map((one) => children.indexOf(one)));
  kept.forEach((one, i) => stay.has(i) || one.remove());
  let at = old.firstChild;
  const drop = () => {
    const next = at.nextSibling;
    at.remove();
    at = next;
  };
  for (const wanted of [...fresh.childNodes]) {
    const same = wanted.id ? named.get(key(wanted)) : null;
    if (same) {
      if (same.parentNode !== old) old.insertBefore(same, at);
      else {
        while (at !== same) drop();
        at = at.nextSibling;
      }
      change(same, wanted);
    } else if (!wanted.id && at && !at.id && key(at) === key(wanted)) {
      change(at, wanted);
      at = at.nextSibling;
    } else {
      old.insertBefore(document.adoptNode(wanted), at);
    }
  }
  while (at) drop();
}

/** Fetches the page and shows it; returns a notice for the reader, which is mostly empty. */
async function refresh() {
  const answer = await fetch(location.pathname, {
    cache: "no-store",
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  if (answer.status === 404) return "This quorum no longer exists. This page is out of date.";
  if (!answer.ok) throw new Error(`${answer.status}`);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (paused) return "";
  const focused = document.activeElement;
  const before = document.getElementById("summary").textContent;
  for (const part of ["who", "content"]) {
    change(document.getElementById(part), fresh.getElementById(part));
  }
  document.title = fresh.title;
  // A quorum that moves in the order takes its focus along.
  if (focused && focused !== document.activeElement && focused.isConnected) {
    focused.focus({ preventScroll: true });
  }
  const now = document.getElementById("summary").textContent;
  if (now !== before) said.textContent = now;
  return "";
}

/** Shows a notice that the page is out of date; sets it once, because a screen reader reads it. */
function tell(words) {
  if (offline.textContent !== words) offline.textContent = words;
}

async function tick() {
  if (!paused && !document.hidden) {
    try {
      tell(await refresh());
      lastGood = new Date();
    } catch {
      const since = lastGood.toISOString().slice(11, 19);
      tell(
        `The operator has not answered since ${since} UTC. This page is out of date; the quorums continue to run without it.`,
      );
    }
  }
  setTimeout(tick, EVERY_MS);
}

pause.hidden = false;
pause.setAttribute("aria-pressed", "false");
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
});
setTimeout(tick, EVERY_MS);
