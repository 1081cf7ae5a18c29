"""Exports of a trained model: SavedModel, CTranslate2, Keras, and Hugging Face, also imports."""
