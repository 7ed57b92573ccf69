// The style of the page, and the few lines that switch between heads.
#pragma once

#include <string_view>

namespace mala::tasks {

inline constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light dark; --ink: #1c2230; --soft: #5c6475; --paper: #fbfaf7; --card: #fff;
  --line: #dfe1e8; --softmax: #3b6fd4; --linear: #c77700; --inline: #1c8a5a; --mala: #c2226b;
  --warn: #fff3d6; --warn-line: #e0a93a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaf0; --soft: #a0a7b8; --paper: #12151c;
  --card: #1a1f2a; --line: #303746; --softmax: #7fa8ff; --linear: #f2b04c; --inline: #58cf98;
  --mala: #ff6fae; --warn: #3a2f14; --warn-line: #a97c22; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem; max-width: 70rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: .4rem 0; max-width: 46rem; }
small, .soft { color: var(--soft); }
section.card { background: var(--card); border: 1px solid var(--line); border-radius: .7rem;
  padding: .9rem; margin: .9rem 0; }
.opening { display: grid; grid-template-columns: minmax(0, 15rem) 1fr; gap: 1.4rem; }
.warning { background: var(--warn); border-left: .3rem solid var(--warn-line);
  padding: .5rem .8rem; border-radius: .3rem; }
.row { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: .9rem; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .9rem; }
.top { display: flex; flex-wrap: wrap; gap: .2rem 1rem; align-items: baseline;
  margin-bottom: .7rem; }
.top label { margin-left: auto; }
figure { margin: 0; min-width: 0; }
figcaption { font-size: .84rem; line-height: 1.4; margin-top: .35rem; }
figcaption b, .key { border-bottom: .18rem solid currentColor; font-weight: 600; }
b.softmax, .key.softmax { color: var(--softmax); } b.linear, .key.linear { color: var(--linear); }
b.inline, .key.inline { color: var(--inline); } b.mala, .key.mala { color: var(--mala); }
.tag { font-size: .72rem; border: 1px solid var(--line); border-radius: 1rem; padding: 0 .5rem;
  white-space: nowrap; }
.view { position: relative; display: block; border-radius: .4rem; overflow: hidden;
  background: #000; isolation: isolate; }
.view .picture { position: absolute; inset: 0; background: var(--picture) center / 100% 100%; }
.view.dim .picture { filter: grayscale(1) brightness(.55); }
.view img { position: absolute; inset: 0; width: 100%; height: 100%; image-rendering: pixelated;
  mix-blend-mode: screen; }
.view i { position: absolute; width: 1rem; height: 1rem; margin: -.5rem; border-radius: 50%;
  border: .14rem solid #fff; box-shadow: 0 0 0 .1rem #000a, inset 0 0 0 .1rem #000a; }
.bar { display: inline-block; width: 9rem; height: .7rem; border-radius: .35rem;
  vertical-align: -.05rem; margin: 0 .3rem; }
.keys { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: .5rem 0; font-size: .9rem; }
.chart { width: 100%; height: auto; display: block; }
.chart text { fill: var(--ink); font-size: 12px; } .chart .tick { fill: var(--soft); }
.chart .title { font-weight: 600; font-size: 13px; }
.chart .grid { stroke: var(--line); stroke-width: 1; fill: none; }
.series path { fill: none; stroke: currentColor; stroke-width: 2.2; stroke-linejoin: round; }
.series .range { stroke-width: 5; opacity: .3; stroke-linecap: round; }
.series circle { fill: currentColor; } .series.says circle { fill: var(--card);
  stroke: currentColor; stroke-width: 1.6; }
.series.softmax { color: var(--softmax); } .series.linear { color: var(--linear); }
.series.inline { color: var(--inline); } .series.mala { color: var(--mala); }
.ratios span { white-space: nowrap; margin-right: .7rem; } sup, sub { line-height: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; min-width: 36rem; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; } th:first-child, td:first-child { text-align: left; }
td:nth-child(2), th:nth-child(2) { text-align: left; } th { color: var(--soft); font-weight: 600; } tr.first td { border-top: 2px solid var(--line); }
select { font: inherit; } li { margin: .3rem 0; } ul { padding-left: 1.2rem; max-width: 48rem; }
@media (max-width: 46rem) { body { padding: .8rem; } .row { grid-template-columns: 1fr 1fr; }
  .pair, .opening { grid-template-columns: 1fr; } .opening .view { max-width: 20rem; } }
)css";

// Each stage's maps are in the page for every head; the choice only changes which are seen.
inline constexpr std::string_view kPageScript = R"js(
for (const choice of document.querySelectorAll("select")) {
  choice.addEventListener("change", () => {
    for (const map of choice.closest("section").querySelectorAll(".view img")) {
      map.hidden = map.dataset.head !== choice.value;
    }
  });
}
)js";

}  // namespace mala::tasks
