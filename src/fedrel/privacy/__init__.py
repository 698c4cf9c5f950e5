"""What leaves a platform: the ledger that records it, the policy that limits it, and blinded keys.

`fedrel.privacy.blind` needs torch; the rest does without.
"""

from fedrel.privacy.entries import Entry, Field
from fedrel.privacy.ledger import Ledger
from fedrel.privacy.policy import Policy

__all__ = ["Entry", "Field", "Ledger", "Policy"]
