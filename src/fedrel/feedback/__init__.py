"""Learning from people who judge predictions: simulated users, stored verdicts, estimates of reliability, losses.

Names that need torch are imported from their modules, such as `fedrel.feedback.users`.
"""

from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import RIGHT, UNKNOWN, VERDICTS, WRONG, Store, Verdict

__all__ = ["RIGHT", "UNKNOWN", "VERDICTS", "WRONG", "Store", "Verdict", "sentence_key"]
