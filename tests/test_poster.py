"""The numbers of the poster are those of the model."""

import pathlib

import course
import numpy as np
import pytest
from course import poster

from tf_transformer import Translator


@pytest.fixture(scope="module")
def translator():
    return Translator.load("pocket-en-de")


def test_the_numbers_of_the_encoder_and_of_the_decoder(translator):
    numbers = poster.compute(translator)
    source, target, weights = translator.attention(course.SENTENCE)
    assert (numbers.source, numbers.target) == (source, target)
    np.testing.assert_allclose(numbers.x, numbers.embedded + numbers.positions, atol=1e-6)
    exponentials = np.exp(numbers.scores)
    softmax = exponentials / exponentials.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(numbers.weights, softmax, atol=1e-5)
    np.testing.assert_allclose(numbers.weights, weights["encoder_layer1"][poster.HEAD], atol=1e-5)
    np.testing.assert_allclose(numbers.z, numbers.weights @ numbers.v, atol=1e-5)
    np.testing.assert_allclose(numbers.cross, weights["decoder_layer2_block2"][0], atol=1e-5)
    log_probs = np.log(numbers.probabilities[np.arange(len(target)), numbers.tar_real])
    (scored,) = translator.score([(course.SENTENCE, course.TRANSLATION)])
    assert log_probs.sum() == pytest.approx(scored.log_prob, abs=1e-4)


def test_the_beam_leads_to_the_translation(translator):
    steps, winner = poster.search(translator)
    (text,) = translator.target.decode([winner[1:]])
    assert text.numpy().decode() == course.TRANSLATION
    paths = [dict(alive) for alive, _ in steps]  # ids -> log-probability
    log_probs = [paths[step][winner[: step + 2]] for step in range(len(steps))]
    assert log_probs == sorted(log_probs, reverse=True)
    for earlier, later in zip(paths, paths[1:]):
        for ids, log_prob in later.items():
            assert log_prob <= earlier[ids[:-1]]


def test_both_pages_and_the_pdf_are_written():
    folder = pathlib.Path(course.ROOT) / "notebooks"
    assert (folder / "poster.pdf").read_bytes().startswith(b"%PDF")
    for page in (1, 2):
        assert (folder / f"poster_{page}.png").read_bytes().startswith(b"\x89PNG")
