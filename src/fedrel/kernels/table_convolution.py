"""The compiled convolution as a differentiable function of torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fedrel.kernels.convolution import convolve, convolve_backward
from fedrel.kernels.jit import compiled
from fedrel.kernels.layout import aligned, pad, stride, unpad


class _TableConvolution(torch.autograd.Function):
    """`table_convolution` for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,
        head_position: Tensor,
        tail_position: Tensor,
        weight: Tensor,
        bias: Tensor,
        words: Tensor,
        heads: Tensor,
        tails: Tensor,
        lengths: Tensor,
    ) -> Tensor:
        tables = (vectors, head_position, tail_position)
        shape = lengths.shape[0] * (lengths.shape[1] - 1), len(weight)
        maxima, rows = weight.new_empty(shape), torch.empty(shape, dtype=torch.int32)
        of_model, text = (*tables, _windows(tables, weight), bias), (words, heads, tails, lengths, maxima, rows)
        convolve(*arrays_of(*of_model), vectors.shape[1], *arrays_of(*text))
        ctx.save_for_backward(*tables, weight, words, heads, tails, lengths, rows)
        return maxima

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *tables, weight, words, heads, tails, lengths, rows = ctx.saved_tensors
        found = [torch.empty_like(of) for of in (*tables, weight, weight[:, 0])]
        given = (grad.contiguous(), rows, *tables, weight, words, heads, tails, lengths, *found)
        _backward(*(tensor.numpy() for tensor in given))
        return (*found, None, None, None, None)


@compiled
def _backward(
    grad: Any,
    rows: Any,
    vectors: Any,
    head_position: Any,
    tail_position: Any,
    weight: Any,  # (F, window·(D+2d))
    words: Any,
    heads: Any,
    tails: Any,
    lengths: Any,
    to_vectors: Any,
    to_head: Any,
    to_tail: Any,
    to_weight: Any,
    to_bias: Any,
) -> None:
    """`convolve_backward` on weights as they lie in the model."""
    width = vectors.shape[1] + 2 * head_position.shape[1]
    step, window, dimension = stride(width), weight.shape[1] // width, vectors.shape[1]
    padded, to_padded = aligned(len(weight), window * step, weight), aligned(len(weight), window * step, weight)
    rows_of_words, to_words = aligned(len(vectors), step, vectors), aligned(len(vectors), step, vectors)
    pad(weight, padded, step)
    pad(vectors, rows_of_words, step)
    tables, text = (rows_of_words, head_position, tail_position), (words, heads, tails, lengths)
    convolve_backward(grad, rows, *tables, padded, *text, dimension, to_words, to_head, to_tail, to_padded, to_bias)
    unpad(to_padded, to_weight, step)
    unpad(to_words, to_vectors, step)


_table_convolution: Callable[..., Tensor] = _TableConvolution.apply


def table_convolution(
    vectors: Tensor,
    head_position: Tensor,
    tail_position: Tensor,
    weight: Tensor,
    bias: Tensor,
    words: Tensor,
    heads: Tensor,
    tails: Tensor,
    lengths: Tensor,
) -> Tensor:
    """(S·pieces, F) maxima by piece of the distinct words' vectors (U, D) and the position tables (P, d), by weight
    (F, window·(D+2d)) and bias (F,). `words`, `heads` and `tails` (T,) are rows of the tables; `lengths`
    (S, pieces + 1) counts the tokens of each piece of each sentence, in its last column those that belong to none.
    """
    tables, text = (vectors, head_position, tail_position), (words, heads, tails, lengths)
    if torch.is_grad_enabled():
        return _table_convolution(*tables, weight, bias, *text)
    maxima = weight.new_empty(lengths.shape[0] * (lengths.shape[1] - 1), len(weight))
    of_model = (*tables, _windows(tables, weight), bias)
    convolve(*arrays_of(*of_model), vectors.shape[1], *arrays_of(*text, maxima), None)
    return maxima


def _windows(tables: tuple[Tensor, ...], weight: Tensor) -> Tensor:
    """(F, window, D+2d) of the weights."""
    return weight.view(len(weight), -1, sum(table.shape[1] for table in tables))


def arrays_of(*tensors: Tensor) -> list[Any]:
    """The tensors as numpy arrays that share their memory."""
    return [tensor.detach().numpy() for tensor in tensors]
