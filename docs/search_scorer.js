// How the site's search orders what it finds (conf.py: html_search_scorer): pages whose titles hold the words that were
// asked come first, recipes before explanations, and these before evidence and measurements.
const SHELVES = [
  [/^(howto|tutorial|index)/, 6],
  [/^reference\/(?!bibliography|glossary|changelog)/, 4],
  [/^(replication|measurements|dev)/, -6],
];

const words = (text) => text.toLowerCase().match(/[a-z0-9.]+/g) ?? [];

const begins = (long, short) => long.startsWith(short.slice(0, Math.max(4, short.length - 2)));

const inTitle = (title) => {
  const asked = words(new URLSearchParams(window.location.search).get("q") ?? "").filter((w) => w.length > 2);
  const said = words(title);
  const held = asked.map((w) => (said.includes(w) ? 1 : said.some((one) => begins(one, w)) ? 0.8 : 0));
  return held.reduce((sum, one) => sum + one, 0) / (asked.length || 1);
};

var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) => {
    const shelf = SHELVES.find(([names]) => names.test(docname))?.[1] ?? 0;
    return score + shelf + 20 * inTitle(title);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
