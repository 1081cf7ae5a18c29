"""The settings of training and their defaults, which are the paper's values."""

import dataclasses

from tf_transformer.errors import UserError
from tf_transformer.setting import Settings, listed, setting

NOAM = "noam"  # tensor2tensor's name of Eq. 3
INVERSE_SQRT = "inverse_sqrt"  # fairseq's name
DECAY_TO_0 = ("linear", "cosine")  # schedules that end at train_steps
SCHEDULES = (NOAM, INVERSE_SQRT, "constant", *DECAY_TO_0)
FREEZABLE = ("encoder", "decoder", "embeddings")


@dataclasses.dataclass(frozen=True)
class TrainConfig(Settings):
    """Training (Sec. 5.3, 5.4), validation, checkpoints and logs."""

    train_steps: int = setting(100_000, "updates of the weights", minimum=1)
    train_minutes: float = setting(
        0.0,
        "maximum time of training from each start, wall-clock minutes; 0 means no limit",
        minimum=0,
    )
    learning_rate_schedule: str = setting(
        NOAM,
        "the learning rate after its linear warm-up: noam (Eq. 3), inverse_sqrt (the same curve, "
        "with its peak given), constant, or linear or cosine decay to 0 at train_steps",
        choices=SCHEDULES,
    )
    warmup_steps: int = setting(4000, "updates while the learning rate rises (Eq. 3)", minimum=1)
    plateau_steps: int = setting(
        0, "updates at the peak of inverse_sqrt, between its warm-up and its decay", minimum=0
    )
    learning_rate: float = setting(
        0.0, "peak of the schedules other than noam", minimum=0, maximum=1000
    )
    learning_rate_scale: float = setting(
        1.0,
        "factor on Eq. 3 (noam), for batches much smaller than the paper's",
        minimum=0,
        maximum=1000,
    )
    dropout_warmup_steps: int = setting(
        0, "updates while the dropout rate rises from 0; 0 means a constant rate", minimum=0
    )
    label_smoothing: float = setting(0.1, "epsilon_ls of label smoothing", minimum=0, below=1)
    r_drop: float = setting(
        0.0,
        "alpha of R-Drop (Liang et al. 2021), the weight of the divergence between two passes with "
        "different dropout masks; 0 means one pass",
        minimum=0,
        maximum=1000,
    )
    # In float32, 1 - beta and epsilon must not round to 0: they are divisors.
    beta_1: float = setting(
        0.9, "Adam's decay rate of the mean gradient", minimum=0, maximum=0.999999
    )
    beta_2: float = setting(
        0.98, "Adam's decay rate of the mean squared gradient", minimum=0, maximum=0.999999
    )
    epsilon: float = setting(1e-9, "Adam's epsilon", minimum=1e-30, maximum=1)
    seed: int = setting(
        1,
        "seed of the weights, the order of the data and the dropout masks",
        minimum=0,
        below=2**21,
    )
    clip_norm: float = setting(
        0.0,
        "maximum global norm of the gradients; 0 means no limit (the paper)",
        minimum=0,
        maximum=1e30,
    )
    ema_decay: float = setting(
        0.0,
        "decay rate of an exponential moving average of the weights, such as 0.999, which is then "
        "validated and used instead of the average of checkpoints; 0 means none",
        minimum=0,
        maximum=0.999999,
    )
    init_from: str = setting(
        "",
        "fine-tuning: model folder, or name of a built-in model, with whose weights and vocabulary "
        "a new run starts",
    )
    init_optimizer: bool = setting(
        False,
        "take Adam's moments and the number of updates from the newest checkpoint of init_from too",
    )
    extend_vocab: int = setting(
        0,
        "sub-words of the training text that are added to the vocabulary of init_from, at most; 0 "
        "means that it stays",
        minimum=0,
        maximum=100_000,
    )
    freeze: str = setting(
        "",
        "weights that are not updated: encoder, decoder, embeddings, or several of them, separated "
        "by commas",
    )
    micro_batch_tokens: int = setting(
        4096,
        "source tokens, and target tokens, that a device computes at a time, padding included; "
        "a larger shard of a batch is computed by gradient accumulation",
        minimum=1,
        maximum=100_000_000,
    )
    precision: str = setting(
        "auto",
        "auto (bfloat16 where the device has matrix units for it), float32, mixed_bfloat16 or "
        "mixed_float16",
        choices=("auto", "float32", "mixed_bfloat16", "mixed_float16"),
    )
    jit_compile: str = setting(
        "auto",
        "whether XLA compiles the gradients: auto (on GPUs), on or off",
        choices=("auto", "on", "off"),
    )
    logical_devices: int = setting(
        0,
        "replicas on the CPU; 0 means one replica on each GPU, or two on the CPU without a GPU",
        minimum=0,
        maximum=256,
    )
    save_steps: int = setting(
        1500, "updates between checkpoints (Sec. 6.1: 10 minutes, 1,500 of base)", minimum=1
    )
    max_checkpoints: int = setting(
        5,
        "newest checkpoints that are kept; at the end, those of the last eighth of the updates are "
        "averaged (Sec. 6.1: 5 for base, 20 for big)",
        minimum=1,
    )
    eval_steps: int = setting(1000, "updates between validations", minimum=1)
    early_stopping_patience: int = setting(
        0, "validations without a better score before training stops; 0 means never", minimum=0
    )
    max_skipped_steps: int = setting(
        20, "consecutive updates without finite gradients before training stops", minimum=1
    )
    bleu_sentences: int = setting(
        500, "validation sentences that are translated for the BLEU score; 0 means none", minimum=0
    )
    log_steps: int = setting(50, "updates between log lines", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        schedule = self.learning_rate_schedule
        if schedule == NOAM and self.learning_rate:
            raise UserError(
                f"learning_rate {self.learning_rate:g} has no effect on the schedule noam: give "
                f"learning_rate_scale, or learning_rate_schedule {listed(SCHEDULES[1:])}"
            )
        if schedule != NOAM and not self.learning_rate:
            raise UserError(
                f"learning_rate_schedule {schedule} needs a peak: give learning_rate, such as "
                "0.0005"
            )
        if schedule != INVERSE_SQRT and self.plateau_steps:
            raise UserError(
                f"plateau_steps {self.plateau_steps} has no effect on the schedule {schedule}: it "
                f"is for learning_rate_schedule {INVERSE_SQRT}"
            )
        if schedule in DECAY_TO_0 and self.warmup_steps >= self.train_steps:
            raise UserError(
                f"warmup_steps {self.warmup_steps} is not less than train_steps "
                f"{self.train_steps}: learning_rate_schedule {schedule} would not reach its peak"
            )
        if self.init_optimizer and not self.init_from:
            raise UserError("init_optimizer needs init_from, the model to start with")
        if self.extend_vocab and not self.init_from:
            raise UserError("extend_vocab needs init_from, whose vocabulary it extends")
        if self.extend_vocab and self.init_optimizer:
            raise UserError(
                "extend_vocab and init_optimizer: give one of them, since Adam has no moments of "
                "new sub-words"
            )
        if self.extend_vocab and "embeddings" in self.freeze:
            raise UserError(
                "extend_vocab and freeze embeddings: give one of them, since new sub-words have to "
                "be trained"
            )
        self._check_freeze()

    def _check_freeze(self) -> None:
        parts = self.freeze.split(",") if self.freeze else []
        for part in parts:
            if part not in FREEZABLE:
                raise UserError(f"freeze {part!r}: give {listed(FREEZABLE)}")
        if set(parts) == set(FREEZABLE):
            raise UserError(f"freeze {self.freeze}: no weights are left to train")
