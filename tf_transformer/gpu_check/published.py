"""Published speeds, for orientation: other text, lengths and vocabularies than those measured."""

from tf_transformer.gpu_check.results import Table

PUBLISHED = Table(
    "Published figures",
    "For orientation: their sentences, vocabularies and batches differ, and so does what they "
    "count.",
    ("what", "device", "figure", "source"),
    [
        (
            "fairseq, training of base, fp16",
            "V100",
            "40,000 words/s a GPU (160,000 on 4)",
            "[fairseq#940](https://github.com/facebookresearch/fairseq/issues/940)",
        ),
        (
            "NVIDIA, training of big, fp16",
            "V100-16G",
            "32,153 tokens/s",
            "[DeepLearningExamples](https://github.com/NVIDIA/DeepLearningExamples/tree/master/"
            "PyTorch/Translation/Transformer)",
        ),
        (
            "CTranslate2, translation with base, float16",
            "A10G",
            "10,991 tokens/s",
            "[CTranslate2](https://github.com/OpenNMT/CTranslate2#benchmarks)",
        ),
    ],
)
