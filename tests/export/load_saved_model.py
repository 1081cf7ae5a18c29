"""Loads a SavedModel as a server does, in a process without this package.

    python load_saved_model.py VERSION_FOLDER TEXTS_AS_JSON

It translates, runs the recorded requests, and prints the results as JSON.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of the tokenizer)
from tensorflow_serving.apis import prediction_log_pb2

path, texts = sys.argv[1], json.loads(sys.argv[2])
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    signatures = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def

    def run(name, inputs):
        """The outputs of a signature."""
        tensors = {signatures[name].inputs[key].name: value for key, value in inputs.items()}
        outputs = {key: output.name for key, output in signatures[name].outputs.items()}
        return session.run(outputs, tensors)

    found = run("nbest", {"text": texts})
    requests = []
    warm_up = os.path.join(path, "assets.extra", "tf_serving_warmup_requests")
    for record in tf.compat.v1.io.tf_record_iterator(warm_up):
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        run(request.model_spec.signature_name, inputs)
        requests.append([request.model_spec.signature_name, request.model_spec.name])
results = {
    "translations": [[text.decode() for text in row] for row in found["translations"]],
    "scores": found["scores"].tolist(),
    "requests": requests,
    "has_package": "tf_transformer" in sys.modules,
}
print(json.dumps(results))
