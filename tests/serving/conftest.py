"""A SavedModel in memory."""

import pytest


@pytest.fixture(scope="session")
def saved_model(cold_export):
    """Version 1 of the tiny model, which was trained for a few updates only."""
    from tf_transformer.serving.tensorflow_model import TensorFlowModel

    model = TensorFlowModel(cold_export)
    yield model
    model.close()
