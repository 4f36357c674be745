// The desk's page, kept live: fetches the open questions, shows them in the markup that the server renders, sends answers.
// Text from outside is only ever a text node, a value or a data attribute; nothing here makes markup from a string.

/** Accept stays off this long after a question appeared or moved, so that a click meant for another one cannot land. */
const HOLD_MS = 800;
/** After the key a or d, Enter counts for this long. */
const CONFIRM_MS = 3_000;
/** The stream is opened again after this long at first, then twice as long each time, up to the second. */
const RETRY_MS = [1_000, 30_000];
/** A visible page asks again after this long without news, in case the stream died without a sign. */
const STALE_MS = 15_000;
/** No reply within this long is no reply. */
const REPLY_MS = 10_000;
/** A timer that was due each second and is this late: the machine slept. */
const SLEPT_MS = 5_000;
/** Time left from which the fuse changes colour: soon, then last. */
const URGENT_MS = [30_000, 10_000];
/** A notice goes away after this long; the history keeps what it said. */
const NOTICE_MS = 8_000;

const OUTCOMES = {
  accept: 'accepted',
  'not-confirmed': 'accepted without the tick',
  decline: 'declined',
  cancel: 'cancelled',
};
const outcome = (action) => (Object.hasOwn(OUTCOMES, action) ? OUTCOMES[action] : action);

const byId = (id) => document.getElementById(id);

if (byId('sign-in')) signIn();
else desk();

/** The sign-in page: a key in the address (`/#key=…`) is taken out of it and posted. */
function signIn() {
  const form = byId('sign-in');
  const take = () => {
    const key = keyFromAddress();
    if (!key) return;
    byId('key').value = key;
    form.requestSubmit();
  };
  addEventListener('hashchange', take);
  take();
}

/** The key in the fragment, which leaves the address bar and the history entry with this call. */
function keyFromAddress() {
  const key = new URLSearchParams(location.hash.slice(1)).get('key');
  if (key !== null) history.replaceState(null, '', location.pathname + location.search);
  return key;
}

/** A span of time in words, as page.rs says it. */
function duration(ms) {
  const seconds = Math.max(1, Math.ceil(ms / 1000));
  const [minutes, hours, days] = [60, 3600, 86_400].map((unit) => Math.floor(seconds / unit));
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  if (minutes) return `${minutes} min ${seconds % 60} s`;
  return `${seconds} s`;
}

/** A character that does not show or that turns the direction of writing; the same ones as `disguises` in page.rs. */
const DISGUISES =
  /\r(?!\n)|[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F\u00AD\u061C\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\uFEFF\u{E0000}-\u{E007F}]/gu;

/** The text as nodes, with a marked code point for each disguising character, as `visible` in page.rs. */
function visible(text) {
  const nodes = [];
  let plain = 0;
  for (const { 0: character, index } of text.matchAll(DISGUISES)) {
    const mark = document.createElement('mark');
    mark.textContent = `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
    nodes.push(text.slice(plain, index), mark);
    plain = index + character.length;
  }
  return [...nodes, text.slice(plain)];
}

/** Puts a text that a caller may have chosen into a part of a clone. */
function put(node, selector, text) {
  node.querySelector(selector).replaceChildren(...visible(text));
}

function desk() {
  const csrf = document.querySelector('meta[name=csrf]').content;
  const list = byId('questions');
  /** The questions on the page, by id. */
  const shown = new Map();
  /** Those that were answered from here: a reply that was under way meanwhile must not bring them back. */
  const done = new Set();
  let latest = { now: Date.now(), pending: [], recent: [] };
  /** The desk's clock minus ours. */
  let skew = 0;
  let armed = null;

  // --- The list ---------------------------------------------------------------------------------------------------------

  /** Makes an article of the page, the server's or ours, a question that ticks and can be answered. */
  function adopt(node) {
    const part = (selector) => node.querySelector(selector);
    const question = {
      id: node.dataset.id,
      tool: part('.tool').textContent,
      asked: Number(node.dataset.asked),
      expires: Number(node.dataset.expires),
      node,
      tick: part('input[name=confirm]'),
      accept: part('.accept'),
      decline: part('.decline'),
      fuse: part('.fuse'),
      left: part('.left'),
      held: 0,
      refocus: null,
      busy: false,
      over: false,
      warned: false,
    };
    part('form').addEventListener('submit', (event) => {
      event.preventDefault();
      // Only a press of Accept or Decline is an answer.
      if (event.submitter?.name === 'action') answer(question, event.submitter.value);
    });
    shown.set(question.id, question);
    return question;
  }

  function build(item) {
    const node = byId('blank-question').content.firstElementChild.cloneNode(true);
    Object.assign(node.dataset, { id: item.id, asked: item.asked, expires: item.expires });
    node.setAttribute('aria-labelledby', `q-${item.id}`);
    node.querySelector('.tool').id = `q-${item.id}`;
    put(node, '.tool', item.tool);
    put(node, '.session', item.session);
    put(node, '.message', item.message);
    put(node, '.title', item.title || 'Confirm');
    put(node, '.description', item.description ?? '');
    node.querySelector('.description').hidden = !item.description;
    node.querySelector('.unverified').hidden = item.senderVerified;
    node.querySelector('input[name=id]').value = item.id;
    node.querySelector('input[name=csrf]').value = csrf;
    return node;
  }

  /** Brings the page to the latest reply with as few moves as it takes, and holds whatever appeared or moved. */
  function arrange() {
    const pending = latest.pending
      .filter((item) => !done.has(item.id))
      .sort((a, b) => a.expires - b.expires || a.asked - b.asked || (a.id < b.id ? -1 : 1));
    const open = new Set(pending.map((item) => item.id));
    const place = (question) => question.accept.getBoundingClientRect().top;
    const before = new Map([...shown.values()].map((question) => [question.id, place(question)]));

    for (const question of [...shown.values()]) if (!open.has(question.id)) remove(question);
    let at = list.firstElementChild;
    const arrived = [];
    for (const item of pending) {
      let question = shown.get(item.id);
      if (!question) arrived.push((question = adopt(build(item))));
      if (question.node === at) at = at.nextElementSibling;
      else list.insertBefore(question.node, at);
    }

    const count = pending.length;
    const heading = count === 0 ? 'No question is waiting' : count === 1 ? '1 question is waiting' : `${count} questions are waiting`;
    if (byId('heading').textContent !== heading) byId('heading').textContent = heading;
    document.title = `${count ? `(${count}) ` : ''}countersign desk`;
    byId('empty').hidden = count > 0;
    showHistory();
    tick();
    for (const question of shown.values()) {
      const was = before.get(question.id);
      if (was === undefined || Math.abs(was - place(question)) > 1) hold(question);
    }
    if (arrived.length === 1) announce(`New question: ${arrived[0].tool}, ${arrived[0].left.textContent}.`);
    else if (arrived.length > 1) announce(`${arrived.length} new questions.`);
  }

  function remove(question) {
    if (armed?.question === question) disarm();
    const { node } = question;
    const next = node.nextElementSibling ?? node.previousElementSibling ?? byId('heading');
    const focused = node.contains(document.activeElement);
    clearTimeout(question.held);
    shown.delete(question.id);
    node.remove();
    if (focused) next.focus();
  }

  let historyShown = '';
  function showHistory() {
    const wanted = JSON.stringify(latest.recent);
    if (wanted === historyShown) return;
    historyShown = wanted;
    byId('history').hidden = latest.recent.length === 0;
    byId('answered').replaceChildren(...latest.recent.map((item) => {
      const node = byId('blank-answered').content.firstElementChild.cloneNode(true);
      put(node, '.outcome', outcome(item.action));
      node.querySelector('.outcome').dataset.action = item.action;
      put(node, '.tool', item.tool);
      put(node, '.session', item.session);
      node.querySelector('.how').title = new Date(item.answered).toLocaleString();
      return node;
    }));
    tickHistory();
  }

  // --- Time -------------------------------------------------------------------------------------------------------------

  function tick() {
    const now = Date.now() + skew;
    for (const question of shown.values()) {
      const left = question.expires - now;
      question.fuse.max = Math.max(1, question.expires - question.asked);
      question.fuse.value = Math.max(0, left);
      question.node.dataset.urgency = left <= URGENT_MS[1] ? 'last' : left <= URGENT_MS[0] ? 'soon' : 'calm';
      const words = left > 0 ? `${duration(left)} left` : 'no time left';
      if (question.left.textContent !== words) question.left.textContent = words;
      if (left > 0 && left <= URGENT_MS[0] && !question.warned) {
        question.warned = true;
        if (question.expires - question.asked > URGENT_MS[0]) announce(`${question.tool}: ${words}.`);
      }
      // Both ways: our clock may have been set while the question waited.
      if (question.over !== left <= 0) {
        question.over = left <= 0;
        hold(question);
        refresh();
      }
    }
  }

  function tickHistory() {
    const now = Date.now() + skew;
    [...byId('answered').children].forEach((node, at) => {
      const item = latest.recent[at];
      if (!item) return;
      const who = item.who ? `by ${item.who} ` : '';
      const words = `${who}after ${duration(item.latencyMs)}, ${duration(now - item.answered)} ago`;
      const how = node.querySelector('.how');
      if (how.textContent !== words) how.textContent = words;
    });
  }

  /** Accept goes off, and comes back HOLD_MS later if the question can still be answered. */
  function hold(question) {
    if (armed?.question === question) disarm();
    // A disabled button loses the focus; whoever was on it gets it back.
    if (document.activeElement === question.accept) question.refocus = question.accept;
    clearTimeout(question.held);
    question.held = setTimeout(() => {
      question.held = 0;
      settle(question);
    }, HOLD_MS);
    settle(question);
  }

  function settle(question) {
    const closed = question.busy || question.over;
    question.accept.disabled = closed || question.held !== 0;
    question.decline.disabled = closed;
    question.tick.disabled = closed;
    if (!question.accept.disabled && question.refocus) {
      const unclaimed = document.activeElement === null || document.activeElement === document.body;
      if (unclaimed) question.refocus.focus({ preventScroll: true });
      question.refocus = null;
    }
  }

  const holdAll = () => shown.forEach(hold);

  // --- Answers ----------------------------------------------------------------------------------------------------------

  async function answer(question, action) {
    const button = action === 'accept' ? question.accept : question.decline;
    if (button.disabled) return;
    disarm();
    const confirm = question.tick.checked;
    if (question.node.contains(document.activeElement)) question.node.focus({ preventScroll: true });
    question.busy = true;
    settle(question);
    try {
      const reply = await fetch('/api/answer', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': csrf },
        body: JSON.stringify({ id: question.id, action, confirm }),
        signal: AbortSignal.timeout(REPLY_MS),
      });
      if (reply.status === 401) return signedOut();
      if (reply.status === 200 || reply.status === 409) {
        const { result } = await reply.json();
        const won = reply.status === 200;
        notice(won ? `${question.tool}: ${outcome(result)}.` : `${question.tool} was not waiting any more: ${outcome(result)}.`);
        done.add(question.id);
      } else if (reply.status === 404) {
        notice(`${question.tool}: this question is gone.`);
        done.add(question.id);
      } else if (reply.status === 403) {
        notice('The desk did not take the answer. Load the page again, then answer.');
      } else {
        notice(`The desk did not take the answer (status ${reply.status}).`);
      }
    } catch {
      notice('No reply from the desk. The answer may have arrived or not: the list will tell.');
    }
    question.busy = false;
    settle(question);
    arrange();
    refresh();
  }

  function signedOut() {
    stopListening();
    location.assign('/');
  }

  // --- Keyboard ---------------------------------------------------------------------------------------------------------

  const current = () => shown.get(document.activeElement?.closest('.question')?.dataset.id);

  function move(step) {
    const nodes = [...list.children];
    const from = nodes.indexOf(current()?.node);
    const to = from === -1 ? (step > 0 ? 0 : nodes.length - 1) : Math.min(nodes.length - 1, Math.max(0, from + step));
    nodes[to]?.focus();
    nodes[to]?.scrollIntoView({ block: 'nearest' });
  }

  function arm(action) {
    const question = current();
    if (!question) {
      move(1);
      if (current()) notice('This is the first question. Press the key again to answer it.');
      return;
    }
    if ((action === 'accept' ? question.accept : question.decline).disabled) {
      notice('This question has only just come or moved. Try again in a second.');
      return;
    }
    const untold = action === 'accept' && !question.tick.checked ? ' without the tick' : '';
    notice(`Enter: ${action} ${question.tool}${untold}. Escape: leave it.`);
    question.node.dataset.armed = action;
    armed = { question, action, timer: setTimeout(disarm, CONFIRM_MS) };
  }

  function disarm() {
    if (!armed) return;
    clearTimeout(armed.timer);
    delete armed.question.node.dataset.armed;
    armed = null;
    notice('');
  }

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    if (event.target.matches('textarea, select, input:not([type=checkbox])')) return;
    const was = armed;
    if (event.key !== 'Shift') disarm();
    if (event.key === 'Enter' && was) {
      event.preventDefault();
      answer(was.question, was.action);
    } else if (event.key === 'j') move(1);
    else if (event.key === 'k') move(-1);
    else if (event.key === 'a') arm('accept');
    else if (event.key === 'd') arm('decline');
  });
  document.addEventListener('pointerdown', disarm);

  // --- Words to the person ----------------------------------------------------------------------------------------------

  let noticeTimer = 0;
  function notice(text) {
    clearTimeout(noticeTimer);
    byId('notice').textContent = text;
    if (text) noticeTimer = setTimeout(() => notice(''), NOTICE_MS);
  }

  function announce(text) {
    byId('announce').textContent = text;
  }

  function link(state) {
    const words = { live: 'live', lost: 'not connected' };
    if (byId('link').dataset.state === state) return;
    byId('link').dataset.state = state;
    byId('link').textContent = words[state];
    if (state === 'lost') announce('Not connected to the desk. Trying again.');
  }

  // --- News from the desk -----------------------------------------------------------------------------------------------

  let fetching = false;
  let again = false;
  let asked = 0;

  /** One fetch at a time; a wish that comes meanwhile is one more fetch, since the reply under way may be older than it. */
  async function refresh() {
    again = true;
    if (fetching) return;
    fetching = true;
    try {
      while (again) {
        again = false;
        asked = Date.now();
        const reply = await fetch('/api/pending', { cache: 'no-store', signal: AbortSignal.timeout(REPLY_MS) });
        if (reply.status === 401) return signedOut();
        if (!reply.ok) throw new Error(`status ${reply.status}`);
        latest = await reply.json();
        skew = latest.now - Date.now();
        arrange();
        link('live');
      }
    } catch {
      link('lost');
    } finally {
      fetching = false;
    }
  }

  let source = null;
  let failures = 0;
  let retry = 0;

  function stopListening() {
    clearTimeout(retry);
    source?.close();
    source = null;
  }

  function listen() {
    stopListening();
    source = new EventSource('/api/events');
    source.addEventListener('open', () => {
      failures = 0;
      refresh();
    });
    source.addEventListener('changed', refresh);
    source.addEventListener('error', () => {
      stopListening();
      const wait = Math.min(RETRY_MS[1], RETRY_MS[0] * 2 ** failures);
      failures += 1;
      // Spread, so that a desk that restarts is not met by all pages at once.
      retry = setTimeout(listen, wait * (0.5 + Math.random() / 2));
      // An error event has no status; this tells a desk that is down from a person who is signed out.
      refresh();
    });
  }

  function wake() {
    if (source?.readyState !== EventSource.OPEN) listen();
    refresh();
  }

  let ticked = Date.now();
  setInterval(() => {
    const late = Date.now() - ticked > SLEPT_MS;
    ticked = Date.now();
    tick();
    tickHistory();
    if (document.hidden) return;
    if (late) listen();
    if (late || Date.now() - asked > STALE_MS) refresh();
  }, 1000);

  document.addEventListener('visibilitychange', () => {
    if (document.hidden) return;
    holdAll();
    wake();
  });
  addEventListener('online', wake);
  let width = innerWidth;
  addEventListener('resize', () => {
    // A phone also resizes when its address bar slides away, which moves nothing.
    if (width !== innerWidth) holdAll();
    width = innerWidth;
  });
  addEventListener('pagehide', stopListening);
  addEventListener('pageshow', (event) => {
    if (event.persisted) wake();
  });
  // A key in the address of a page that is signed in already is not used; it must not stay there either.
  addEventListener('hashchange', keyFromAddress);
  keyFromAddress();

  for (const node of list.children) hold(adopt(node));
  if (byId('notice').textContent) notice(byId('notice').textContent);
  listen();
  refresh();
}
