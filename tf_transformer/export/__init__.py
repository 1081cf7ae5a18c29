"""Exports of a trained model: SavedModel, CTranslate2 and Keras."""
