"""The special tokens: their ids, the same in every vocabulary, and the sign for a blank."""

PAD = 0  # padding
UNK = 1  # unknown token
START = 2  # start of a sequence: the first input of the decoder
END = 3  # end of a sequence
BLANK = "\u2581"  # what SentencePiece writes for a blank
