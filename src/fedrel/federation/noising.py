"""A platform's side of differential privacy: how its answers are hidden in noise, and what they cost."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedrel.experiment.budget import Budget
from fedrel.experiment.parties import Participant
from fedrel.federation.home import Home
from fedrel.federation.signing import Request
from fedrel.privacy.account import Account, Answer
from fedrel.privacy.fixed_point import Words
from fedrel.privacy.policy import Policy
from fedrel.protocol.codec import Record
from fedrel.protocol.noised import question
from fedrel.protocol.summed import Layout
from fedrel.util.files import private_folder, write_atomic


class RefusedError(Exception):
    """The platform refuses to answer; the message is sent to the coordinator."""


@dataclass
class Noise:
    """Of one run: how much noise, as this platform works it out from what was agreed, and its account over all runs."""

    budget: Budget
    account: Account
    run_id: str
    last: Path  # its last answer, as it was sent

    @classmethod
    def of(cls, participant: Participant, home: Home, request: Request) -> Noise | None:
        """None: the run has no noise."""
        budget = participant.budget
        return (
            None
            if budget is None
            else cls(budget, Account.open(home.account), request.run_id, home.memory / request.run_id / "answer")
        )

    @property
    def unit(self) -> str:
        return self.budget.mechanism.unit

    def objection(self, policy: Policy) -> str | None:
        """Why the platform does not begin the run."""
        planned = [self.budget.noise] * self.budget.most
        return policy.objection_to_epsilon(self.account, planned, self.unit, self.run_id)

    def spend(
        self, policy: Policy, request: Request, layout: Layout, message: Record, memory: Record, words: Words
    ) -> Words:
        """Writes an answer down that is about to leave; what leaves, which to a repeated question is what left before:
        training again may differ in the last digits. Raises RefusedError if it would be one too many.
        """
        answer = Answer(
            run=request.run,
            run_id=request.run_id,
            round=request.round,
            task=request.task,
            unit=self.unit,
            noise=self.budget.noise,
            asked=question(message, layout.units, memory).hex(),
            sent=hashlib.sha256(words.tobytes()).hexdigest(),
        )
        given = {it.question: it.sent for it in self.account.answers if it.run_id == self.run_id}
        if answer.question in given:
            before = self.last.read_bytes() if self.last.exists() else b""
            if hashlib.sha256(before).hexdigest() == given[answer.question]:
                return np.frombuffer(before, np.uint32).copy()
        else:
            if len(given) >= self.budget.most:
                raise RefusedError("its part of this run's privacy budget is spent (dp.epsilon)")
            planned = [self.budget.noise] * (len(given) + 1)
            if objection := policy.objection_to_epsilon(self.account, planned, self.unit, self.run_id):
                raise RefusedError(objection)
            private_folder(self.last.parent)
            write_atomic(self.last, words.tobytes(), private=True)
        try:
            self.account.add(answer)
        except ValueError as error:
            raise RefusedError(str(error)) from None
        return words
