"use strict";
// The section in which the user types the beginning of a translation. The model completes it, and
// the section shows the most probable ways to continue. It uses functions of page.js and
// attention.js.
const SIGNATURES = ["translate_with_options", "alternatives"]; // that the section needs
const SMALLEST_PROBABILITY = 0.001; // of an alternative that is shown
const PAUSE = 250; // milliseconds after the last key until the server is asked
let canComplete = false; // whether the model has these signatures
let question = new AbortController(); // of the last question to the server
let pause = 0; // the timer of the pause

// Reads from the server whether its model can complete a beginning.
async function readSignatures() {
  const {metadata} = await request(`v1/models/${NAME}/metadata`);
  const names = Object.keys(metadata.signature_def.signature_def);
  canComplete = SIGNATURES.every((name) => names.includes(name));
}

// Shows the section for a line, with an empty beginning.
function startCompletion(line) {
  byId("completion").hidden = !canComplete || !line.hypotheses.some(isFound);
  byId("prefix").value = "";
  setLanguage(byId("prefix"), model.target);
  clearCompletion();
  if (!byId("completion").hidden) completeAfterPause();
}

function clearCompletion() {
  question.abort();
  clearTimeout(pause);
  byId("completed").replaceChildren();
  byId("alternatives").replaceChildren();
  byId("alternatives-title").hidden = true;
}

// Asks the server to complete the beginning, and shows its answer.
async function complete() {
  const prefix = byId("prefix").value;
  const instances = [{text: chosen.text, target_prefix: prefix}];
  clearTimeout(pause);
  question.abort(); // the server stops to compute what nobody waits for
  question = new AbortController();
  const {signal} = question;
  try {
    const [[completion], [next]] = await Promise.all(
      SIGNATURES.map((signature) => predict(signature, instances, signal)));
    if (signal.aborted) return;
    showCompleted(prefix, completion.translations[0], completion.scores[0]);
    showAlternatives(prefix, next);
  } catch (error) {
    if (signal.aborted) return;
    clearCompletion();
    showMessage("completed", error.message, true);
  }
}

// Shows a completion. The part that the user has typed is marked.
function showCompleted(prefix, text, score) {
  showMessage("completed", "");
  const target = createTarget({text, score});
  const [typed, ...rest] = splitAfter(prefix, text);
  if (typed) target.replaceChildren(createElement("mark", typed), ...rest);
  byId("completed").append(target);
}

// Splits a translation: what the user has typed, the next word, and the rest.
function splitAfter(prefix, text) {
  const typed = prefix.trim().replace(/\s+/g, " "); // as the model writes it
  if (!text.startsWith(typed)) return ["", text, ""];
  const [word] = text.slice(typed.length).match(/^\s*\S*/);
  return [typed, word, text.slice(typed.length + word.length)];
}

// Shows the translations that differ in the next sub-word, the most probable one first.
function showAlternatives(prefix, {translations, probabilities, scores}) {
  const shown = translations
    .map((text, i) => ({text, probability: probabilities[i], score: scores[i]}))
    .filter((row) => isFound(row) && row.probability >= SMALLEST_PROBABILITY)
    .filter(({text}, i, rows) => rows.findIndex((row) => row.text === text) === i);
  byId("alternatives-title").hidden = !shown.length;
  byId("alternatives").replaceChildren(...shown.map(({text, probability}) => {
    const [before, word, after] = splitAfter(prefix, text);
    const item = createElement("li", "");
    const button = createElement("button", "", {type: "button"});
    const target = createElement("span", before, {dir: "auto"});
    target.append(createElement("b", word || " (end)"), after);
    setLanguage(target, model.target);
    button.append(createElement("span", percent(probability), {class: "score"}), " ", target);
    button.addEventListener("click", () => continueWith(before + word));
    item.append(button);
    return item;
  }));
}

// Makes a text the beginning, and completes it.
function continueWith(text) {
  const input = byId("prefix");
  input.value = text;
  input.focus();
  input.setSelectionRange(input.value.length, input.value.length);
  complete();
}

function completeAfterPause() {
  clearTimeout(pause);
  pause = setTimeout(complete, PAUSE);
}

byId("prefix").addEventListener("input", completeAfterPause);
