"""Settings of the fuzz tests."""

from hypothesis import HealthCheck, settings

# The same examples in each run, in bounded time.
bounded = settings(
    max_examples=150,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
