"""The Transformer (Sec. 3): masks, attention, embedding, layers, encoder and decoder."""
