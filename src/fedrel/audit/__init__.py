"""What a curious coordinator could learn from a federation: attacks, measured on one's own data."""

from fedrel.audit.finding import Attack, Finding
from fedrel.audit.running import audit
from fedrel.audit.statistics import Measure

__all__ = ["Attack", "Finding", "Measure", "audit"]
