"use strict";
// The page of the server. It uses functions of attention.js and completion.js, loaded before it.
const NAMES = document.body.dataset.names.split(" "); // of the models
const SECONDS_TO_RETRY = 2;  // while the server loads the models
const TEXTS_OF_REQUEST = 16; // longer texts are translated in several requests
const SMALLEST_SCORE = -1e8; // a hypothesis that was not found has a smaller score
// Intl.Segmenter does not know abbreviations: this is the end of "Mr. ", "z. B. " or "on 3. ".
const ABBREVIATION = /(?<![\p{L}\p{N}])(\p{Lu}\p{Ll}?|Mrs|Prof|\p{N}{1,2})\.\s+$/u;
// The tag of a language at the beginning of a line, such as <2de> or >>de<<; the text after it.
const TAGGED = /^ *(<2[\w-]+>|>>[\w-]+<<) +([^ ].*)$/u;
let models = [];     // in the order of their names; [] until the server has loaded them
// The chosen one of them: its name, its version, whether it can complete the beginning of a
// translation, and what it says of itself, which may be nothing.
let model = {name: NAMES[0]};
let chosen = null;   // the line whose hypotheses and attention are shown
let isBusy = false;  // whether a translation is running

async function request(url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch {
    throw new Error("The server does not answer: check that it is running.");
  }
  const content = await response.json().catch(() => null);
  if (!response.ok || content === null) {
    throw new Error(content?.error || `The server answered with status ${response.status}.`);
  }
  return content;
}

// Returns the results of a signature for texts, in their order.
async function predict(signature, texts, signal) {
  const body = JSON.stringify({signature_name: signature, instances: texts});
  const options = {method: "POST", body, signal};
  const {predictions} = await request(`v1/models/${model.name}:predict`, options);
  if (predictions?.length !== texts.length) throw new Error("The server's answer is incomplete.");
  return predictions;
}

function showMessage(id, text, isError = false) {
  byId(id).textContent = text;
  byId(id).classList.toggle("error", isError);
}

// Returns the name of a language for its code; the code itself where it has no name.
function languageName(code) {
  try {
    if (new Intl.Locale(code).toString() !== code) return code; // such as "in", a former code
    return new Intl.DisplayNames("en", {type: "language"}).of(code);
  } catch {
    return code; // not the form of a language code
  }
}

// Returns an Intl.Segmenter for a language; for English where its code has no name.
function createSegmenter(code, granularity) {
  const known = code && languageName(code) !== code;
  return new Intl.Segmenter(known ? code : "en", {granularity});
}

// Marks text with its language, for screen readers and spell checkers, where the code has a name.
function setLanguage(element, code) {
  element.lang = code && languageName(code) !== code ? code : "";
}

// Returns the languages of a model, such as "English -> German"; "" where it does not say them.
function languagesOf({source, target}) {
  return source ? `${languageName(source)} \u2192 ${languageName(target)}` : "";
}

// Returns the version of a model that answers.
async function availableVersion(name) {
  const {model_version_status: states} = await request(`v1/models/${name}`);
  const available = states.find(({state}) => state === "AVAILABLE");
  if (!available) throw new Error("The model is being loaded.");
  return available.version;
}

// Reads what the models are, and shows it. Tries again until the server has loaded them.
async function readModels() {
  try {
    const versions = await Promise.all(NAMES.map(availableVersion));
    const canComplete = await Promise.all(NAMES.map(readCanComplete));
    const descriptions = await request("models.json");
    models = NAMES.map((name, i) => (
      {...descriptions[name], name, version: versions[i], canComplete: canComplete[i]}));
    showModel(models[NAMES.indexOf(model.name)]);
    showModels();
  } catch (error) {
    showMessage("version", error.message, true);
    setTimeout(readModels, 1000 * SECONDS_TO_RETRY);
  }
}

// Shows a button for each model, which chooses it: its languages, where no other model has them.
function showModels() {
  const titles = models.map(languagesOf);
  const areClear = titles.every((title, i) => title && titles.indexOf(title) === i);
  byId("models").hidden = models.length < 2;
  byId("models").replaceChildren(...models.map((each, i) => {
    const label = createElement("label", "");
    const button = createElement("input", "", {type: "radio", name: "model"});
    button.checked = each === model;
    button.addEventListener("change", () => {
      clearResults();
      showMessage("message", "");
      showModel(each);
    });
    label.append(button, " ", areClear ? titles[i] : each.name);
    return label;
  }));
}

// Chooses a model, and shows what it is.
function showModel(chosenOne) {
  model = chosenOne;
  const source = model.source && languageName(model.source);
  byId("title").textContent = [model.name, languagesOf(model)].filter((part) => part).join(": ");
  showMessage("version", `version ${model.version}`);
  byId("text-label").textContent = source ? `Text (${source})` : "Text";
  setLanguage(byId("text"), model.source);
  showCard();
  showScoreHelp();
}

// Shows what the card of the model says of it, and its examples as buttons that translate them.
function showCard() {
  byId("about").textContent = model.about ?? "";
  const examples = model.examples ?? [];
  byId("examples").hidden = !examples.length;
  byId("examples").replaceChildren(byId("examples").firstElementChild, ...examples.map((text) => {
    const button = createElement("button", text, {type: "button", dir: "auto"});
    setLanguage(button, model.source);
    button.addEventListener("click", () => {
      byId("text").value = text;
      byId("form").requestSubmit();
    });
    return button;
  }));
}

function showScoreHelp() {
  const score = "Score: log-probability divided by the length penalty";
  const {beam_size, length_penalty} = model;
  byId("score-help").textContent = beam_size === undefined ? `${score}.`
    : `Beam size ${beam_size}. ${score} ((5 + length) / 6) ^ ${length_penalty}.`;
}

const isFound = (hypothesis) => hypothesis.score > SMALLEST_SCORE;

// Returns the reason why a source has no translation.
function sourceTooLong() {
  const limit = model.max_source_subwords?.toLocaleString("en");
  return limit ? `too long: more than ${limit} sub-words` : "too long for the model";
}

// Returns an element with the text of a hypothesis, or with the reason why there is none.
function createTarget(hypothesis, notFound = sourceTooLong()) {
  if (isFound(hypothesis) && hypothesis.text) {
    const target = createElement("span", hypothesis.text, {class: "target", dir: "auto"});
    setLanguage(target, model.target);
    return target;
  }
  const reason = isFound(hypothesis) ? "empty translation" : notFound;
  return createElement("span", `(${reason})`, {class: "target none"});
}

// Adds a line, {text, hypotheses}, to the list of results.
function addLine(line) {
  const label = createElement("label", "", {class: "line"});
  const button = createElement("input", "", {type: "radio", name: "line"});
  button.addEventListener("change", () => choose(line));
  const source = createElement("span", line.text, {class: "source", dir: "auto"});
  setLanguage(source, model.source);
  label.append(button, source, createTarget(line.hypotheses[0]));
  byId("results-list").append(label);
  byId("results").hidden = false;
  if (chosen === null) {
    button.checked = true;
    choose(line);
  }
}

// Shows the hypotheses and the attention of a line.
function choose(line) {
  chosen = line;
  const found = line.hypotheses.filter(isFound);
  byId("hypotheses-list").replaceChildren(...found.map((hypothesis) => {
    const item = createElement("li", "");
    const score = createElement("span", hypothesis.score.toFixed(3), {class: "score"});
    item.append(createTarget(hypothesis), " ", score);
    return item;
  }));
  byId("hypotheses").hidden = !found.length;
  startCompletion(line);
  // An export for CTranslate2 has no attention weights.
  const hasAttention = found.length && model.max_aligned_subwords !== 0;
  byId("attention").hidden = !hasAttention;
  if (hasAttention) showAttention(line);
}

async function showAttention(line) {
  byId("attention-view").hidden = true;
  showMessage("attention-message", "Loading\u2026");
  try {
    line.alignment ??= (await predict("alignments", [line.text]))[0];
  } catch (error) {
    if (chosen === line) showMessage("attention-message", error.message, true);
    return;
  }
  if (chosen !== line) return; // another line was chosen in the meantime
  const target = line.alignment.target_tokens.filter((piece) => piece);
  const keys = line.alignment.source_tokens.filter((piece) => piece);
  if (!keys.length) {
    const limit = model.max_aligned_subwords;
    const reason = limit ? `has more than ${limit} sub-words` : "is too long";
    showMessage("attention-message", `No attention weights: the text ${reason}.`);
    return;
  }
  showMessage("attention-message", "");
  byId("attention-view").hidden = false; // before the layout, which measures it
  setSubwords({queries: decoderRows(target, "[START]"), keys}, ENCODER_DECODER_TITLES);
  showWeights();
}

// Shows the chosen layer and head of the chosen line. There is no padding in one line.
function showWeights() {
  const {weights} = chosen.alignment;
  fillLayersAndHeads(weights);
  setWeights(selectedHead(weights[layerIndex()]));
}

function clearResults() {
  chosen = null;
  byId("results-list").replaceChildren();
  clearCompletion();
  for (const id of ["results", "hypotheses", "completion", "attention"]) byId(id).hidden = true;
}

// Returns the sentences of a line; the line itself where the browser cannot split it.
// The tag of a line, such as <2de>, is put before each of its sentences.
function splitSentences(line) {
  if (!Intl.Segmenter) return [line];
  const [, tag = "", text] = line.match(TAGGED) ?? [, "", line];
  const sentences = [];
  for (const {segment} of createSegmenter(model.source, "sentence").segment(text)) {
    const continues = sentences.length && ABBREVIATION.test(sentences.at(-1));
    sentences.push(continues ? sentences.pop() + segment : segment);
  }
  return sentences.map((sentence) => sentence.trim() && tag ? `${tag} ${sentence}` : sentence);
}

// Returns the texts to translate: the lines of the form, or their sentences. None is blank.
function readTexts() {
  let texts = byId("text").value.split("\n");
  if (byId("split").checked) texts = texts.flatMap(splitSentences);
  return texts.map((text) => text.trim()).filter((text) => text);
}

async function translateTexts(texts) {
  const start = performance.now();
  const unit = byId("split").checked ? "sentence" : "line";
  for (let i = 0; i < texts.length; i += TEXTS_OF_REQUEST) {
    showMessage("message", i ? `${i} of ${texts.length} ${unit}s\u2026` : "Translating\u2026");
    const part = texts.slice(i, i + TEXTS_OF_REQUEST);
    (await predict("nbest", part)).forEach(({translations, scores}, k) => {
      const hypotheses = translations.map((text, n) => ({text, score: scores[n]}));
      addLine({text: part[k], hypotheses});
    });
  }
  const count = texts.length === 1 ? `1 ${unit}` : `${texts.length} ${unit}s`;
  showMessage("message", `${count} in ${Math.round(performance.now() - start)} ms`);
}

async function translate(event) {
  event.preventDefault();
  if (isBusy) return;
  clearResults();
  const texts = readTexts();
  if (!texts.length) {
    showMessage("message", "Enter a sentence first.", true);
    return;
  }
  isBusy = byId("models").disabled = true;
  byId("go").setAttribute("aria-disabled", true); // a disabled button would lose the focus
  try {
    await translateTexts(texts);
    if (await availableVersion(model.name) !== model.version) await readModels();
  } catch (error) {
    showMessage("message", error.message, true);
  } finally {
    isBusy = byId("models").disabled = false;
    byId("go").removeAttribute("aria-disabled");
  }
}

byId("form").addEventListener("submit", translate);
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
});
for (const id of ["layer", "head"]) byId(id).addEventListener("change", showWeights);
readModels();
