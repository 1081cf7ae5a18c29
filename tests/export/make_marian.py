"""Writes `marian/`, a tiny model of Hugging Face transformers, for the tests.

    pip install torch transformers sentencepiece safetensors
    python tests/export/make_marian.py

It has the architecture of OPUS-MT models and their form of the vocabulary: two SentencePiece
models, and one `vocab.json` that begins with the end token, ends with padding, and lacks a letter.
It is trained for a few seconds, so that its outputs end. `expected.json` has what transformers
computes with it. The folder was written with torch 2.13.0, transformers 5.23.0 and sentencepiece
0.2.3.
"""

import io
import json
import pathlib

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

MAX_LENGTH = 40
KINDS = ("greedy", "beam")
FOLDER = pathlib.Path(__file__).with_name("marian")
ENGLISH = """The cat sleeps on the table . The dog sees a small house . A child reads the old book .
We walk to the river every morning . The teacher gives the children a new game . My sister has a
red car and a blue boat . They eat bread and cheese in the garden . Where is the train station ?
The birds sing in the tall trees . He writes a letter to his friend . It is cold in the winter .
You can buy milk at the market . The old man tells a story . She opens the window at night ."""
GERMAN = """Die Katze schläft auf dem Tisch . Der Hund sieht ein kleines Haus . Ein Kind liest das
alte Buch . Wir gehen jeden Morgen zum Fluss . Der Lehrer gibt den Kindern ein neues Spiel . Meine
Schwester hat ein rotes Auto und ein blaues Boot . Sie essen Brot und Käse im Garten . Wo ist der
Bahnhof ? Die Vögel singen in den hohen Bäumen . Er schreibt seinem Freund einen Brief . Es ist kalt
im Winter . Man kann auf dem Markt Milch kaufen . Der alte Mann erzählt eine Geschichte ."""
TEXTS = [
    "The cat reads a new story .",
    "My friend walks to the garden",
    ">>fra<< We see the old train  station ?",
    "Schläft Ж 日本 the dog",
    "a",
]
TARGETS = ["Die Katze liest eine Geschichte .", "Der Mann geht zum Markt", "Wir", "Ж", "ein Buch"]
# Texts that are not trained on, so that greedy and beam search find different outputs for some.
OTHER_TEXTS = [
    "The cat walks to the garden", "The cat reads", "My friend reads a new story .", "a story",
    "We see the cat .", "My friend .", "The old train", "a new friend walks", "the garden",
]  # fmt: skip


def write_vocabulary():
    """Writes `source.spm`, `target.spm` and `vocab.json`. Returns: the number of ids."""
    pieces = []
    for name, text in (("source", ENGLISH), ("target", GERMAN)):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text.replace("\n", " ").split(" . ")),
            model_writer=model,
            model_type="unigram",
            vocab_size=70,
            # The default rule, NFKC, takes 250 kB.
            normalization_rule_name="identity",
            minloglevel=2,
        )
        (FOLDER / f"{name}.spm").write_bytes(model.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        pieces += [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    pieces = [piece for piece in dict.fromkeys(pieces) if piece != "z"]
    pieces = ["</s>", "<unk>", *sorted(pieces), ">>fra<<", "<pad>"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    (FOLDER / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), "utf-8")
    return len(vocabulary)


def make_model(vocab_size):
    """A model of random weights, with larger ones than transformers' own, and a random bias."""
    torch.manual_seed(1)
    pad = vocab_size - 1
    config = MarianConfig(
        vocab_size=vocab_size,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_position_embeddings=64,
        activation_function="swish",
        scale_embedding=True,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
    )
    model = MarianMTModel(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                centre = 1.0 if "norm.weight" in name else 0.0
                weight.copy_(centre + 0.25 * torch.randn(weight.shape))
        model.final_logits_bias.copy_(0.5 * torch.randn(1, vocab_size))
        model.get_input_embeddings().weight[pad] = 0
    model.generation_config.update(num_beams=6, bad_words_ids=[[pad]], max_length=64)
    return model


def train(model, inputs, labels, updates=150):
    """Trains until the outputs end by themselves, but are not certain."""
    # The positional encoding is a constant, and is not in the file.
    weights = [w for name, w in model.named_parameters() if "embed_positions" not in name]
    optimizer = torch.optim.Adam(weights, lr=0.01)
    labels = labels.masked_fill(labels == model.config.pad_token_id, -100)
    model.train()
    for _ in range(updates):
        optimizer.zero_grad()
        model(**inputs, labels=labels).loss.backward()
        optimizer.step()
    model.eval()


def search(model, tokenizer, text, num_beams):
    """The translation of a text: its ids without the first, its text, and its score."""
    inputs = tokenizer([text], return_tensors="pt")
    found = model.generate(
        **inputs,
        num_beams=num_beams,
        max_new_tokens=MAX_LENGTH,
        length_penalty=0.0 if num_beams > 1 else None,
        output_scores=True,
        return_dict_in_generate=True,
    )
    ids = found.sequences[0, 1:].tolist()
    score = found.sequences_scores[0].item() if num_beams > 1 else None
    return {"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=True), "score": score}


def main():
    """Writes the folder."""
    FOLDER.mkdir(exist_ok=True)
    model = make_model(write_vocabulary())
    files = [str(FOLDER / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = MarianTokenizer(*files, source_lang="eng", target_lang="deu")
    config = {"source_lang": "eng", "target_lang": "deu", "tokenizer_class": "MarianTokenizer"}
    (FOLDER / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")

    inputs = tokenizer(TEXTS, text_target=TARGETS, return_tensors="pt", padding=True)
    labels = inputs.pop("labels")
    train(model, inputs, labels)
    model.save_pretrained(FOLDER)
    with torch.no_grad():
        logits = model(**inputs, labels=labels).logits
    rows = [
        {
            "source": text,
            "target": target,
            "source_ids": tokenizer(text).input_ids,
            "target_ids": tokenizer(text_target=target).input_ids,
            "logits": [[round(x, 6) for x in logits] for logits in row.tolist()],
        }
        for text, target, row in zip(TEXTS, TARGETS, logits)
    ]
    searches = [
        {
            "source": text,
            "greedy": search(model, tokenizer, text, 1),
            "beam": search(model, tokenizer, text, 4),
        }
        for text in [*TEXTS, *OTHER_TEXTS]
    ]
    # The two libraries have other scores for an output that the limit ends.
    searches = [row for row in searches if max(len(row[k]["ids"]) for k in KINDS) < MAX_LENGTH]
    text = json.dumps({"pairs": rows, "searches": searches}, ensure_ascii=False)
    (FOLDER / "expected.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
