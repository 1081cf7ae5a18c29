"""BLEU, chrF and EVALB."""
