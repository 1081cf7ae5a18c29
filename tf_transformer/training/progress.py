"""What a checkpoint keeps of a run beside weights and optimizer."""

import dataclasses
from typing import Any

from tf_transformer.checkpoints.checkpoint import validation_score


@dataclasses.dataclass
class Progress:
    """Skipped updates and validations of a run so far."""

    best: list[Any] | None = None  # of the validations so far: ["BLEU", score] or ["loss", -loss]
    validations_since_best: int = 0
    # Step and figures of the last validation.
    validated: list[Any] = dataclasses.field(default_factory=lambda: [0, {}])
    skipped_steps: int = 0  # updates without finite gradients
    skipped_in_a_row: int = 0

    def record_update(self, skipped: int) -> None:
        """Counts an update; `skipped` is 1 when it was skipped, else 0."""
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped else 0
        self.skipped_steps += skipped

    def record_validation(self, step: int, values: dict[str, Any]) -> bool:
        """Records the metrics of a validation. Returns: whether its score is the best so far."""
        self.validated = [step, values]
        self.validations_since_best += 1
        measure, value = validation_score(values)
        is_best = self.best is None or self.best[0] != measure or value > self.best[1]
        if is_best:
            self.best = [measure, value]
            self.validations_since_best = 0
        return is_best
