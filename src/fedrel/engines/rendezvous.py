"""Tasks of several platforms whose trainings are done as one.

A task is an ordinary function that calls `fit` somewhere. Each runs in a thread of its own, but only one at a time, and
pauses where it calls `fit`; when all have paused or ended, what they want trained is trained together, and they go on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch

from fedrel.errors import DivergedError
from fedrel.learning.fit import Fitted, Work, rendezvous

Result = TypeVar("Result")
Trainer = Callable[[Sequence[Work]], Sequence[Fitted | DivergedError]]


class _CalledOff(BaseException):
    """Another task failed: this one need not end."""


class _Job(Generic[Result]):
    """A task that runs until it ends or waits for a training."""

    def __init__(self, task: Callable[[], Result]) -> None:
        self._task = task
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self.wants: Work | None = None
        self.trained: Fitted | BaseException | None = None
        self.result: Result
        self.error: BaseException | None = None
        self.ended = False
        self._threads = torch.get_num_threads()
        threading.Thread(target=self._run, daemon=True).start()

    def go_on(self) -> None:
        """Until it pauses again."""
        self._go.release()
        self._paused.acquire()

    def call_off(self) -> None:
        if not self.ended:
            self.trained = _CalledOff()
            self.go_on()

    def _run(self) -> None:
        self._go.acquire()
        torch.set_num_threads(self._threads)
        rendezvous.set(self._wait)
        try:
            if not isinstance(self.trained, _CalledOff):
                self.result = self._task()
        except BaseException as error:
            self.error = error
        self.ended = True
        self._paused.release()

    def _wait(self, work: Work) -> Fitted:
        self.wants = work
        self._paused.release()
        self._go.acquire()
        self.wants, trained = None, self.trained
        if isinstance(trained, BaseException):
            raise trained
        assert trained is not None
        return trained


def meet(tasks: Sequence[Callable[[], Result]], train: Trainer) -> list[Result]:
    """The results in the order of the tasks. Of several errors, the first task's is raised."""
    jobs = [_Job(task) for task in tasks]
    try:
        for job in jobs:
            job.go_on()
            if job.error:
                raise job.error
        while waiting := [job for job in jobs if not job.ended]:
            for job, trained in zip(waiting, train([job.wants for job in waiting if job.wants]), strict=True):
                job.trained = trained
            for job in waiting:
                job.go_on()
                if job.error:
                    raise job.error
        return [job.result for job in jobs]
    finally:
        for job in jobs:
            job.call_off()
