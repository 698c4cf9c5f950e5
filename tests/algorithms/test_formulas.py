"""The numbers of the papers' formulas, through the functions that the methods use."""

import math

import torch

from fedrel.algorithms.fedatt import attend
from fedrel.algorithms.fedcmc import FedCMC, similarity
from fedrel.algorithms.feded import teach
from fedrel.learning.losses import Output, calibrated, contrast, cross_entropy, divergence, scaled, to_rows
from fedrel.learning.named import Named

TWO = [torch.log_softmax(torch.tensor([logits]), dim=1) for logits in ([4.0, 1.0, 0.0], [3.0, 1.0, 0.0])]


def close(found: torch.Tensor, expected: list[float], digits: float = 5e-4) -> None:
    torch.testing.assert_close(found.flatten().float(), torch.tensor(expected), rtol=0, atol=digits)


def test_the_teachers_of_feded():
    close(teach(TWO, "log-mean", 1.0), [0.899, 0.074, 0.027], 5.1e-4)
    close(teach(TWO, "paper-literal", 1.0), [0.535, 0.238, 0.226], 5.1e-4)
    averaged = torch.stack(TWO).exp().mean(0)
    torch.testing.assert_close(teach(TWO, "prob-mean", 1.0), averaged)
    nine = [torch.log_softmax(torch.tensor([[100.0] + [0.0] * 8]), dim=1)]
    close(teach(nine, "paper-literal", 1.0)[:, :1], [0.254])  # the literal formula caps the teacher's confidence
    close(teach(nine, "log-mean", 1.0)[:, :1], [1.0])
    warm = teach(TWO, "log-mean", 2.0)
    torch.testing.assert_close(warm, torch.softmax(torch.tensor([[3.5, 1.0, 0.0]]) / 2, dim=1))


def test_attention_to_the_platforms_that_moved_farthest():
    w = Named(layer=torch.tensor([1.0, 1.0]))
    platforms = [Named(layer=torch.tensor([0.0, 1.0])), Named(layer=torch.tensor([1.0, 3.0]))]
    close(attend(w, platforms, 1.2)["layer"], [0.6773, 2.7545], 5e-5)


def test_attention_with_a_step_of_one_and_equal_distances_is_the_mean():
    w = Named(layer=torch.zeros(2), other=torch.zeros(1))
    platforms = [
        Named(layer=torch.tensor([3.0, 4.0]), other=torch.tensor([-2.0])),
        Named(layer=torch.tensor([0.0, -5.0]), other=torch.tensor([2.0])),
    ]
    found = attend(w, platforms, 1.0)
    close(found["layer"], [1.5, -0.5], 1e-6)
    close(found["other"], [0.0], 1e-6)
    assert attend(w, [], 1.2) is w


def test_contrast_of_moon():
    angle = [math.acos(0.9), math.acos(0.2)]
    z = torch.tensor([[1.0, 0.0]])
    near, far = (torch.tensor([[math.cos(a), math.sin(a)]]) for a in angle)
    close(contrast(z, near, far, 0.5), [0.2204], 5e-5)
    close(contrast(z, near, near, 0.5), [math.log(2)], 1e-6)


def test_logits_of_fedrs_and_fedlc():
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    close(scaled(logits, torch.tensor([3, 0, 1]), 0.5), [2.0, 0.5, 0.0], 0)
    lowered = calibrated(logits, torch.tensor([16, 1, 81]), 1.0)
    close(torch.nn.functional.cross_entropy(lowered, torch.tensor([1])), [1.8243], 5e-5)
    close(calibrated(logits, torch.tensor([0, 0, 0]), 1.0), [1.0, 0.0, -1.0], 1e-6)  # a class never seen counts as one


def test_the_major_vector_is_the_one_least_like_the_others():
    major = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])  # of class 0: cosines 0 and -1
    minor = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.9, 0.0]])
    both = torch.stack([minor, major])  # (k, R, H)
    d = similarity(both)  # (k, R)
    close(d[1], [-0.5, 0.0, -0.5], 1e-6)
    assert (d[1] < d[0]).all()
    assert FedCMC(vectors="major").choose(both, d, 1).equal(major)
    assert FedCMC(vectors="minor").choose(both, d, 1).equal(minor)
    drawn = FedCMC(vectors="random").choose(both, d, 1)
    assert all(row.equal(major[c]) or row.equal(minor[c]) for c, row in enumerate(drawn))
    assert drawn.equal(FedCMC(vectors="random").choose(both, d, 1))


def test_contrast_with_classifier_vectors_reaches_the_encoder_alone():
    vectors, rows = torch.randn(4, 3, requires_grad=True), torch.randn(5, 3)
    loss = to_rows(vectors, rows, torch.tensor([0, 1, 2, 4]))
    expected = -torch.log_softmax(vectors @ rows.T, dim=1)[torch.arange(4), torch.tensor([0, 1, 2, 4])].mean()
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert vectors.grad is not None and vectors.grad.abs().sum() > 0


def test_divergence_from_the_teacher():
    logits = torch.randn(6, 4)
    teacher = torch.softmax(torch.randn(6, 4), dim=1)
    p = torch.softmax(logits, dim=1)
    by_hand = (teacher * (teacher.log() - p.log())).sum(1).mean()
    torch.testing.assert_close(divergence(teacher, logits), by_hand)
    close(divergence(p, logits), [0.0], 1e-6)
    output = Output(torch.zeros(6, 2), logits, torch.tensor([0, 1, 2, 3, 0, 1]), torch.arange(6))
    torch.testing.assert_close(cross_entropy(output), -p.log()[torch.arange(6), output.labels].mean())
