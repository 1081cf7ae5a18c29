"""Loads a SavedModel as a server does, in a process without this package.

    python load_saved_model.py VERSION_FOLDER TEXTS_AS_JSON

It loads the model with both APIs of TensorFlow, runs the recorded requests, and prints the results
and the operations of the graph as JSON.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of the tokenizer)
from tensorflow.python.framework import op_def_registry
from tensorflow_serving.apis import prediction_log_pb2


def run_tf2(path, texts):
    """Runs the signature nbest on all texts, and on each text."""
    nbest = tf.saved_model.load(path).signatures["nbest"]
    outputs = nbest(text=tf.constant(texts))
    translations = outputs["translations"].numpy()
    best = [nbest(text=tf.constant([text]))["translations"].numpy()[0, 0] for text in texts]
    return {
        "translations": [[text.decode() for text in row] for row in translations],
        "scores": outputs["scores"].numpy().tolist(),
        "single_texts": [text.decode() for text in best],
    }


def run_session(path, texts):
    """Runs the signature serving_default and the recorded requests in a session."""
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], path)
        signatures = {
            name: signature
            for name, signature in graph.signature_def.items()
            if not name.startswith("__")
        }
        default = signatures["serving_default"]
        best = session.run(
            default.outputs["translation"].name, {default.inputs["text"].name: texts}
        )
        requests = run_recorded_requests(session, signatures, path)
    operations = {node.op for node in graph.graph_def.node}
    for function in graph.graph_def.library.function:
        operations |= {node.op for node in function.node_def}
    return {
        "session": [text.decode() for text in best],
        "requests": requests,
        "operations": sorted(operations),
        "unknown": [name for name in operations if op_def_registry.get(name) is None],
        "signatures": {
            name: [sorted(signature.inputs), sorted(signature.outputs)]
            for name, signature in signatures.items()
        },
    }


def run_recorded_requests(session, signatures, path):
    """Runs the recorded requests. Returns: for each the names of the signature and the model."""
    names = []
    path = os.path.join(path, "assets.extra", "tf_serving_warmup_requests")
    for record in tf.compat.v1.io.tf_record_iterator(path):
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        signature = signatures[request.model_spec.signature_name]
        feed = {
            signature.inputs[name].name: tf.make_ndarray(value)
            for name, value in request.inputs.items()
        }
        session.run([tensor.name for tensor in signature.outputs.values()], feed)
        names.append([request.model_spec.signature_name, request.model_spec.name])
    return names


def main():
    path = sys.argv[1]
    texts = json.loads(sys.argv[2])
    results = {**run_tf2(path, texts), **run_session(path, texts)}
    results["has_package"] = "tf_transformer" in sys.modules
    print(json.dumps(results))


if __name__ == "__main__":
    main()
