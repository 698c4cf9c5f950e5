"""Mistakes that must not go unnoticed: each is made in a copy of the repository, where the test named with it fails.

    python -m tests.mutations           all of them, with a table at the end
    python -m tests.mutations FedAdam   those with this text in their description

tests/test_mutations.py does the same as a slow test.
"""

from tests.mutations.checks import CHECKS
from tests.mutations.steps import PLATFORM_STEPS, ROBUST_MEANS, SERVER_STEPS

MUTATIONS = [*SERVER_STEPS, *ROBUST_MEANS, *PLATFORM_STEPS, *CHECKS]
