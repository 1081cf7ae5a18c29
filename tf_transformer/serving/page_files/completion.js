"use strict";
// The section in which the user types the beginning of a translation. The model completes it, and
// the section shows the most probable ways to continue. It uses functions of page.js and
// attention.js.
const SIGNATURES = ["translate_with_options", "alternatives"]; // that the section needs
const SMALLEST_PROBABILITY = 0.001; // of an alternative that is shown
// Why there is no completion: the section is only shown for a source that is not too long.
const NOT_FOUND = "the beginning is too long for the model";
// Scripts that write words without spaces between them.
const WITHOUT_SPACES = new RegExp(
  ["Han", "Hiragana", "Katakana", "Khmer", "Lao", "Myanmar", "Thai"]
    .map((script) => `\\p{Script=${script}}`).join("|"), "u");
const PAUSE = 250; // milliseconds after the last key until the server is asked
let question = new AbortController(); // of the last question to the server
let pause = 0; // the timer of the pause

// Reads from the server whether a model can complete a beginning.
async function readCanComplete(name) {
  const {metadata} = await request(`v1/models/${name}/metadata`);
  const signatures = Object.keys(metadata.signature_def.signature_def);
  return SIGNATURES.every((signature) => signatures.includes(signature));
}

// Shows the section for a line, with an empty beginning.
function startCompletion(line) {
  byId("completion").hidden = !model.canComplete || !line.hypotheses.some(isFound);
  byId("prefix").value = "";
  setLanguage(byId("prefix"), model.target);
  clearCompletion();
  if (!byId("completion").hidden) completeAfterPause();
}

function clearCompletion() {
  stopCompletion();
  byId("completed").replaceChildren();
  byId("alternatives").replaceChildren();
  byId("alternatives-title").hidden = true;
}

// Withdraws the last question: the server stops to compute what nobody waits for.
function stopCompletion() {
  clearTimeout(pause);
  question.abort();
}

// Asks the server to complete the beginning, and shows its answer.
async function complete() {
  if (chosen === null) return; // the results are gone
  const prefix = byId("prefix").value;
  const instances = [{text: chosen.text, target_prefix: prefix}];
  stopCompletion();
  question = new AbortController();
  const {signal} = question;
  markOutdated(true);
  if (!byId("completed").textContent) showMessage("completed", "Completing\u2026");
  try {
    const [[completion], [next]] = await Promise.all(
      SIGNATURES.map((signature) => predict(signature, instances, signal)));
    if (signal.aborted) return;
    const alternatives = readAlternatives(prefix, next);
    const best = {text: completion.translations[0], score: completion.scores[0]};
    const keepsSpace = startsNewWord(prefix, best.text);
    showCompleted(prefix, keepsSpace ? best : alternatives.find(
      ({text}) => startsNewWord(prefix, text)) ?? best);
    showAlternatives(prefix, alternatives);
    markOutdated(false);
  } catch (error) {
    if (signal.aborted) return;
    clearCompletion();
    markOutdated(false);
    showMessage("completed", error.message, true);
  }
}

// Dims the answer to an earlier beginning. Its alternatives would replace what was typed since.
function markOutdated(isOutdated) {
  byId("completed").setAttribute("aria-busy", isOutdated);
  byId("alternatives").inert = isOutdated;
}

// Shows a completion. The part that the user has typed is marked.
function showCompleted(prefix, hypothesis) {
  showMessage("completed", "");
  const target = createTarget(hypothesis, NOT_FOUND);
  const [typed, ...rest] = splitAfter(prefix, hypothesis.text);
  if (typed) target.replaceChildren(createElement("mark", typed), ...rest);
  byId("completed").append(target);
}

// Splits a translation: what the user has typed, the next word, and the rest.
function splitAfter(prefix, text) {
  const plain = prefix.trim().replace(/\s+/g, " ");
  // As the model writes it: a tokenizer may normalize it, as SentencePiece does.
  const typed = [plain, plain.normalize("NFKC")].find((form) => text.startsWith(form));
  if (typed === undefined) return ["", text, ""];
  const end = endOfWord(text, typed.length);
  return [typed, text.slice(typed.length, end), text.slice(end)];
}

// Returns where the next word of a text ends, from an index on.
function endOfWord(text, start) {
  const [word] = text.slice(start).match(/^\s*\S*/); // between spaces
  const end = start + word.length;
  if (!Intl.Segmenter || !WITHOUT_SPACES.test(word)) return end;
  for (const {index, segment, isWordLike} of createSegmenter(model.target, "word").segment(text)) {
    if (isWordLike && index + segment.length > start) return index + segment.length;
  }
  return end;
}

// Whether a translation starts a new word, or ends, after a beginning that ends with a space. The
// tokenizer removes this space.
function startsNewWord(prefix, text) {
  const [typed, word] = splitAfter(prefix, text);
  return !/\S\s+$/.test(prefix) || !typed || !word || /^\s/.test(word);
}

// Returns the translations that differ in the next sub-word, the most probable one first.
function readAlternatives(prefix, {translations, probabilities, scores}) {
  const rows = translations
    .map((text, i) => ({text, probability: probabilities[i], score: scores[i]}))
    .filter((row) => isFound(row) && row.probability >= SMALLEST_PROBABILITY)
    .filter(({text}, i, found) => found.findIndex((row) => row.text === text) === i);
  const newWords = rows.filter(({text}) => startsNewWord(prefix, text));
  return newWords.length ? newWords : rows;
}

function showAlternatives(prefix, shown) {
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
  stopCompletion();
  markOutdated(true);
  pause = setTimeout(complete, PAUSE);
}

// An input method, such as the Japanese one, composes characters that are not the text yet.
byId("prefix").addEventListener("input", (event) => {
  if (!event.isComposing) completeAfterPause();
});
byId("prefix").addEventListener("compositionstart", stopCompletion);
byId("prefix").addEventListener("compositionend", completeAfterPause);
