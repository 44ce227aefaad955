"""The style sheet of the page: light and dark theme, print, narrow screens."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --paper: #f6f7f9; --card: #ffffff; --ink: #17202c; --ink-soft: #5b6675; --rule: #dfe4ea;
  --accent: #0b6bcb; --bad: #c2362b; --warn: #b26a00; --good: #1d7a46;
  --series-0: #2f7fd1; --series-1: #e08a2e; --series-2: #2f9e77; --series-3: #cf4f4f;
  --series-4: #8566c7; --series-5: #b0793f; --series-6: #d265a8; --series-7: #8a95a3;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #10151c; --card: #18202a; --ink: #e8edf3; --ink-soft: #98a5b5; --rule: #2c3744;
    --accent: #6cb1ff; --bad: #ff7b6e; --warn: #f0b352; --good: #5dd39a;
    --series-0: #5ea5ee; --series-1: #f0a552; --series-2: #4cc49a; --series-3: #f07a75;
    --series-4: #a98cec; --series-5: #cf9c68; --series-6: #ec8cc6; --series-7: #7b8896;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 64px; }
header h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
header p { margin: 0; color: var(--ink-soft); }
section {
  background: var(--card); border: 1px solid var(--rule); border-radius: 12px;
  padding: 20px 22px; margin-top: 20px;
}
h2 { font-size: 17px; margin: 0 0 2px; }
.note { color: var(--ink-soft); margin: 0 0 12px; font-size: 13.5px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(180px, 1fr)); gap: 12px;
  margin-top: 20px; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 12px;
  padding: 14px 16px; }
.tile b { display: block; font-size: 25px; line-height: 1.2; font-weight: 650;
  font-variant-numeric: tabular-nums; letter-spacing: -0.01em; }
.tile span { color: var(--ink-soft); font-size: 13px; }
.tile.bad b { color: var(--bad); }
.tile.good b { color: var(--good); }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-family: inherit !important; }
svg .hover rect { fill: var(--ink); fill-opacity: 0; }
svg .hover rect:hover { fill-opacity: 0.1; }
tr.slow td { color: var(--bad); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 10px 0 0; padding: 0;
  list-style: none; font-size: 13.5px; }
.legend li { max-width: 100%; overflow-wrap: anywhere; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px;
  margin-right: 6px; }
.legend small { color: var(--ink-soft); font-size: inherit; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; font-weight: 600; color: var(--ink-soft); font-size: 13px; }
th, td { padding: 7px 14px 7px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
td.time { white-space: nowrap; font-variant-numeric: tabular-nums; color: var(--ink-soft); }
td.name { overflow-wrap: anywhere; }
.badge { display: inline-block; border-radius: 999px; padding: 1px 10px; font-size: 12.5px;
  font-weight: 600; border: 1px solid currentColor; color: var(--warn); }
.badge.loss, .badge.stall { color: var(--bad); }
.badge.clock { color: var(--accent); }
.sessions { display: grid; grid-template-columns: minmax(90px, 230px) 1fr; gap: 5px 14px;
  align-items: center; font-size: 13.5px; }
.sessions .who { overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
  text-align: right; }
.sessions .way { position: relative; height: 16px; background: var(--paper); border-radius: 5px;
  overflow: hidden; }
.sessions .bar { position: absolute; top: 0; bottom: 0; min-width: 3px; border-radius: 5px;
  background: var(--series-0); }
.sessions .bar.node { background: var(--series-2); }
.sessions .bar.multicast { background: var(--series-4); }
.sessions .bar.silent { opacity: 0.35; }
.sessions .bar.ended { border-right: 4px solid var(--bad); }
.sessions .axis { display: flex; justify-content: space-between; color: var(--ink-soft);
  font-size: 12.5px; font-variant-numeric: tabular-nums; }
.share { position: relative; }
.share::before { content: ""; position: absolute; left: 0; top: 4px; bottom: 4px;
  width: var(--share); background: var(--series-0); opacity: 0.18; border-radius: 4px; }
.share > span { position: relative; padding-left: 8px; overflow-wrap: anywhere; }
footer { color: var(--ink-soft); font-size: 13px; margin-top: 28px; text-align: center; }
@media (max-width: 640px) {
  .tiles { grid-template-columns: 1fr 1fr; }
  .scroll > svg { width: 620px; }
  td.name { min-width: 150px; }
  .sessions { grid-template-columns: 90px 1fr; }
  .sessions .axis span:last-child { display: none; }
}
@media print { body { background: none; } section, .tile { break-inside: avoid; } }
"""
