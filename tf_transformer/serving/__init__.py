"""Exports of a trained model (SavedModel, CTranslate2, Keras), a REST server, and clients."""
