"""Models of other libraries: Marian models of Hugging Face transformers, to and from them."""
