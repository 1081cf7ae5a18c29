"""The requests of the soak test that have decoding options, legal ones and wrong ones."""

import itertools
import json
import math

from serving import NAME, PATH

GRPC_METHOD = "/tensorflow.serving.PredictionService/Predict"
TEXTS = 10  # of the soak test's
MAX_ROWS = 4  # of a request
PAUSE_SECONDS = 0.1  # between two wrong requests of a thread
SEEDS = (0, 7, 2**40)
MAX_DIFFERENCE = 1e-3  # of a number, between two batches


def option_rows(translations):
    """Makes rows with options.

    Args:
      translations: text -> its translation without options.
    Returns: signature -> list of rows, `{"text": ..., option: ...}`.
    """
    rows = {"translate_with_options": [], "sample": [], "alternatives": []}
    for (text, translation), seed in zip(translations.items(), itertools.cycle(SEEDS)):
        beginning = translation.partition(" ")[0]
        searches = (
            {},
            {"n_best": 2, "length_penalty": 0.0},
            {"max_decode_length": 3},
            {"target_prefix": beginning, "n_best": 2},
        )
        rows["translate_with_options"] += [{"text": text, **options} for options in searches]
        rows["sample"] += [
            {"text": text, "seed": seed},
            {"text": text, "seed": seed, "temperature": 0.5, "top_k": 5, "top_p": 0.9},
        ]
        rows["alternatives"] += [{"text": text}, {"text": text, "target_prefix": beginning}]
    return rows


def is_plausible(row, answer, translation):
    """Whether the first answer to a row agrees with the translation without options."""
    texts = answer["translations"] if "translations" in answer else [answer["translation"]]
    if row.keys() == {"text"}:
        return "count" not in answer or texts[0] == translation  # alternatives are greedy
    return texts[0].startswith(row.get("target_prefix", ""))


def is_same(answer, expected):
    """Whether two answers have the same strings, and numbers that hardly differ."""
    if isinstance(expected, dict):
        return answer.keys() == expected.keys() and all(
            is_same(answer[key], expected[key]) for key in expected
        )
    if isinstance(expected, list):
        return len(answer) == len(expected) and all(map(is_same, answer, expected))
    if isinstance(expected, float):
        return math.isclose(answer, expected, rel_tol=MAX_DIFFERENCE, abs_tol=MAX_DIFFERENCE)
    return answer == expected


def wrong_bodies(beam_size):
    """Makes the bodies of requests whose options are wrong, and which must get status 400.

    Args:
      beam_size: of the export.
    """
    search = {
        "n_best": (0, -1, beam_size + 1, 1.5, "1", True, None, [1], 2**31, math.nan),
        "length_penalty": (-0.1, 10.5, "1", None, math.nan, math.inf, -math.inf),
        "max_decode_length": (-1, 0.5),
        "target_prefix": (7, None, ["a"], {"b64": "*"}),
        "bean_size": (1,),
    }
    sample = {
        "temperature": (0, -1, 1e30, math.nan, math.inf),
        "top_k": (-1, 2.5),
        "top_p": (-0.1, 1.5, math.nan),
        "seed": (2**63, 0.5, "7"),
    }
    bodies = [
        {"signature_name": name, "instances": [{"text": "a"}, {"text": "b", option: value}]}
        for name, options in (("translate_with_options", search), ("sample", sample))
        for option, values in options.items()
        for value in values
    ]
    unequal = (
        ("translate_with_options", {"text": ["a", "b"], "n_best": [1]}),
        ("sample", {"text": ["a"], "seed": [1, 2]}),
        ("alternatives", {"text": ["a", "b"], "target_prefix": ["a", "b", "c"]}),
        ("alternatives", {"text": ["a"], "target_prefix": []}),
    )
    bodies += [{"signature_name": name, "inputs": columns} for name, columns in unequal]
    return [json.dumps(body).replace("Infinity", "1e999") for body in bodies]


class OptionClient:
    """Sends requests with options, and checks the answers.

    Args:
      soak: a `Soak`.

    Attributes:
      first_answers: signature -> list of (row, its first answer); empty where the export has no
        signatures with options.
    """

    def __init__(self, soak):
        self._soak = soak
        response = soak.pool.request("GET", f"/v1/models/{NAME}/metadata", timeout=10)
        signatures = json.loads(response.data)["metadata"]["signature_def"]["signature_def"]
        translations = {text: soak.expected[text] for text in soak.texts[:TEXTS]}
        self.first_answers = {}
        for signature, rows in option_rows(translations).items():
            if signature not in signatures:
                continue
            self.first_answers[signature] = []
            for row in rows:
                (answer,) = soak.predict(signature, [row])
                if not is_plausible(row, answer, translations[row["text"]]):
                    soak.count("wrong answers", f"{signature} of {row} gives {answer}")
                self.first_answers[signature].append((row, answer))
        (best,) = soak.predict("nbest", soak.texts[:1])
        self._wrong_bodies = wrong_bodies(len(best["translations"]))

    def use(self, generator):
        """Sends legal rows in a request to one signature."""
        signature = generator.choice(list(self.first_answers))
        rows = generator.choices(self.first_answers[signature], k=generator.randint(1, MAX_ROWS))
        answers = self._soak.predict(signature, [row for row, _ in rows])
        for (row, expected), answer in zip(rows, answers, strict=True):
            if not is_same(answer, expected):
                problem = f"{signature} of {row} gives {answer}, not {expected}"
                self._soak.count("wrong answers", problem)
        self._soak.count("options")

    def send_wrong(self, generator):
        """Sends a request whose options are wrong."""
        body = generator.choice(self._wrong_bodies)
        response = self._soak.pool.request("POST", PATH, body=body, timeout=90)
        if response.status != 400:
            answer = f"{response.status}: {response.data[:200]!r}"
            self._soak.count("wrong options", f"{body} gets status {answer}")
        self._soak.count("hostile")
        self._soak.ended.wait(PAUSE_SECONDS)

    def make_grpc_requests(self):
        """Makes the bytes of calls whose options JSON cannot write, or have a wrong shape."""
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        texts, nan, infinity = self._soak.texts[:2], math.nan, math.inf
        calls = (
            ("translate_with_options", {"length_penalty": [1.0, nan]}),
            ("translate_with_options", {"n_best": [1]}),
            ("translate_with_options", {"n_best": [[1, 1]]}),
            ("translate_with_options", {"n_best": ["1", "1"]}),
            ("sample", {"temperature": [nan, nan]}),
            ("sample", {"top_p": [0.5, infinity]}),
        )
        self._wrong_grpc = []
        for signature, options in calls:
            request = predict_pb2.PredictRequest()
            request.model_spec.name = NAME
            request.model_spec.signature_name = signature
            for name, values in {"text": texts, **options}.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
            self._wrong_grpc.append(request.SerializeToString())

    def send_wrong_grpc(self, generator):
        """Sends a gRPC call whose options are wrong."""
        import grpc

        address = f"{self._soak.address[0]}:{self._soak.grpc_port}"
        with grpc.insecure_channel(address) as channel:
            call = channel.unary_unary(GRPC_METHOD)
            try:
                call(generator.choice(self._wrong_grpc), timeout=60)
                self._soak.count("wrong options", "a gRPC call with a wrong option succeeds")
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                    self._soak.count("wrong options", f"a gRPC call gets {error.details()}")
        self._soak.count("hostile")
        self._soak.ended.wait(PAUSE_SECONDS)
