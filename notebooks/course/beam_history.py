"""A beam search that records its steps, for the drawing of the tree."""

import numpy as np

START, END = 2, 3


def beam_history(next_log_probs, beam_size, limit=60):
    """Runs a beam search without a length penalty.

    Args:
      next_log_probs: a function from n prefixes, lists of t ids, to the log-probabilities `[n, V]`
        of the next id.
      beam_size: the hypotheses that stay alive.
      limit: the largest number of ids.
    Returns: the finished hypotheses (ids, log-probability), best first; for each step the
      hypotheses that stay alive and those that end, in the form of `plots.plot_beam`.
    """
    alive, finished, history = [([START], 0.0)], [], []
    for _ in range(limit):
        rows = next_log_probs([ids for ids, _ in alive])  # (n, V)
        extended = [
            ([*ids, int(word)], log_prob + float(row[word]))
            for (ids, log_prob), row in zip(alive, rows)
            for word in np.argsort(row)[::-1][: 2 * beam_size]
        ]
        extended.sort(key=lambda hypothesis: -hypothesis[1])
        ended = [item for item in extended[:beam_size] if item[0][-1] == END]
        alive = [item for item in extended if item[0][-1] != END][:beam_size]
        history.append((alive, ended))
        finished = sorted([*finished, *ended], key=lambda hypothesis: -hypothesis[1])
        if finished and finished[0][1] >= alive[0][1]:
            break
    return finished, history
