"""The ids of the special tokens, the same in every vocabulary."""

PAD = 0  # padding
UNK = 1  # unknown token
START = 2  # start of a sequence: the first input of the decoder
END = 3  # end of a sequence
