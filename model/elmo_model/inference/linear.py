"""Linear maps for inference, in the fastest form for their device and precision.

torch reaches the packed and the 8-bit products of oneDNN by operators that are no public interface,
so each of them is tried before it is used.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.errors import OptionError
from elmo_model.inference.precision import Precision
from elmo_model.network.row_bytes import to_bytes

_LARGEST_HALF = 65_504.0
# Numbers of a part of a matrix with float16 weights that FBGEMM reads once for every 14 rows of
# inputs: 1 MiB stays in the second cache (2 cores of an Intel Xeon, Sapphire Rapids). It reads 512
# inputs at a time.
_PART, _INPUTS_AT_ONCE = 1 << 19, 512
# Numbers of a matrix up to which float16 weights are the faster float32 product for any number of
# rows on a processor with AVX-512: 2 MiB. With larger ones it is faster for up to eight rows alone.
_MOST_NEAR = 1 << 20
_ZERO = 128  # Signed bytes are sent as unsigned ones with this number for zero.


class Linear(ABC):
    """A matrix (outputs, inputs) that is never trained, in a form that multiplies fast.

    `kernel` says in words which product it is.
    """

    kernel: str

    @abstractmethod
    def linear(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), of the type of the inputs."""

    @abstractmethod
    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `addend` of that shape.

        A form without its own `with_bias` also takes an `addend` (outputs,). The result
        has the type of the inputs. It may lie in new memory or in that of the product.
        """

    def with_bias(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,).

        The result may have fewer bits than the inputs: it is made to be an operand of `addmm`.
        """
        return self.addmm(bias, inputs)

    def affine(self, inputs: Tensor, bias: Tensor | None) -> Tensor:
        """Map as `with_bias`, or as `linear` where there is no bias."""
        return self.linear(inputs) if bias is None else self.with_bias(inputs, bias)


def linear_of(weight: Tensor, precision: Precision) -> Linear:
    """Return the product with a matrix (outputs, inputs) in its fastest form on its device.

    Raises OptionError for a weight that float16 cannot hold, and for int8 on a device, a processor
    or a build of torch without an exact 8-bit product.
    """
    is_plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    match precision:
        case "int8":
            if not (is_plain and has_eight_bits()):
                raise OptionError(
                    "int8 takes a CPU with VNNI and a torch with oneDNN; float16 is the fast "
                    "precision of CPUs with AVX2 alone"
                )
            return QuantisedLinear(weight)
        case "bfloat16" if is_plain and packs(torch.bfloat16):
            return PackedLinear(weight, torch.bfloat16)
        case "float16":
            _refuse_beyond_half(weight)
            is_packed = is_plain and packs(torch.float16)
            return HalfWeightLinear(weight) if is_packed else TorchLinear(weight, torch.float16)
        case "bfloat16":
            return TorchLinear(weight, torch.bfloat16)
        case _:
            is_packed = is_plain and packs(torch.float32)
            return PackedLinear(weight) if is_packed else TorchLinear(weight)


def _refuse_beyond_half(weight: Tensor) -> None:
    """Raise OptionError for a weight that would be infinite in float16."""
    largest = float(weight.abs().max()) if weight.numel() else 0.0
    if largest > _LARGEST_HALF:
        raise OptionError(
            f"a weight is {largest:g}; float16 takes weights up to {_LARGEST_HALF:,.0f}"
        )


class TorchLinear(Linear):
    """torch's own product on any device, with factors of type `dtype`; sums keep the inputs' type.

    By default the type is that of the weights, which are then used in place.
    """

    def __init__(self, weight: Tensor, dtype: torch.dtype | None = None) -> None:
        self.weight = weight if dtype is None else weight.to(dtype)
        self.kernel = f"{str(self.weight.dtype).removeprefix('torch.')} by torch"

    def linear(self, inputs: Tensor) -> Tensor:
        return _cast(inputs.dtype, self._product(inputs))

    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        if addend.dtype is inputs.dtype is self.weight.dtype:
            return torch.addmm(addend, inputs, self.weight.T)
        return torch.add(addend, self._product(inputs))

    def _product(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) in the type of the weights."""
        return functional.linear(_cast(self.weight.dtype, inputs), self.weight)


class PackedLinear(Linear):
    """The product on a CPU, with weights in the order in which oneDNN reads them.

    Factors are float32 or bfloat16. Sums are float32, and rounded when they are written: in
    bfloat16 the result of `with_bias` is bfloat16, and so is the addend of `addmm`. For the few
    rows of a time step it is two to eight times as fast as the plain product
    (benchmarks/RESULTS.md).
    """

    def __init__(self, weight: Tensor, dtype: torch.dtype = torch.float32) -> None:
        self._dtype = dtype
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype).contiguous())
        self.kernel = f"{str(dtype).removeprefix('torch.')} by oneDNN, packed"

    def linear(self, inputs: Tensor) -> Tensor:
        return _cast(inputs.dtype, self._product(inputs, None))

    def with_bias(self, inputs: Tensor, bias: Tensor) -> Tensor:
        return self._product(inputs, bias.to(self._dtype))

    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        total: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
            _cast(self._dtype, inputs), addend, self._packed, None, "add"
        )
        return _cast(inputs.dtype, total)

    def _product(self, inputs: Tensor, bias: Tensor | None) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            _cast(self._dtype, inputs), self._packed, bias, "none", [], ""
        )
        return product


def _cast(dtype: torch.dtype, values: Tensor) -> Tensor:
    """Return values in a type; `Tensor.to` takes four times as long where nothing is to be done."""
    return values if values.dtype is dtype else values.to(dtype)


class HalfWeightLinear(Linear):
    """The product of FBGEMM on a CPU: weights in float16, inputs and sums in float32.

    It reads half the bytes of a float32 product, and rounds only the weights: by 2e-4, and not at
    all where the checkpoint is kept in float16.
    """

    kernel = "float32 with weights in float16 by FBGEMM"

    def __init__(self, weight: Tensor) -> None:
        width = min(weight.shape[1], _INPUTS_AT_ONCE)
        outputs = max(1, _PART // width) if len(weight) * width > 2 * _PART else len(weight)
        self._parts = [
            torch.ops.quantized.linear_prepack_fp16(part.contiguous(), None)
            for part in torch.split(weight, outputs)
        ]

    def linear(self, inputs: Tensor) -> Tensor:
        products = [torch.ops.quantized.linear_dynamic_fp16(inputs, part) for part in self._parts]
        return products[0] if len(products) == 1 else torch.cat(products, dim=1)

    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        return self.linear(inputs).add_(addend)


class QuantisedLinear(Linear):
    """The product on a CPU with 8-bit factors: a scale for each output and for each row of inputs.

    The scale of a row comes from its own largest number, so no row depends on the other rows.
    """

    kernel = "int8 by oneDNN"

    def __init__(self, weight: Tensor) -> None:
        rounded, scales = to_bytes(weight)
        self._packed: Tensor = torch.ops.onednn.qlinear_prepack(rounded.contiguous(), None)
        self._scales = scales.flatten()
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)

    def linear(self, inputs: Tensor) -> Tensor:
        product, scale = self._product(inputs)
        return product.mul_(scale)

    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        product, scale = self._product(inputs)
        return torch.addcmul(addend, product, scale, out=product)

    def _product(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Map (rows, inputs) to (rows, outputs) and the scale (rows, 1) to multiply it by."""
        # The processor multiplies unsigned by signed bytes; signed inputs would take a slow path.
        # torch rounds to signed bytes seven times as fast as to unsigned ones, and the two differ
        # by 128: one bit.
        signed, scale = to_bytes(inputs)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            signed.view(torch.uint8).bitwise_xor_(_ZERO), 1.0, _ZERO,
            self._packed, self._scales, self._zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return product, scale


@cache
def packs(dtype: torch.dtype) -> bool:
    """Tell whether this torch multiplies by packed weights of a type on this processor."""
    if dtype == torch.float16:
        return gives_the_product(HalfWeightLinear, 1e-2)
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    return gives_the_product(partial(PackedLinear, dtype=dtype), tolerance)


def form_of(precision: Precision, weights: Sequence[Tensor]) -> Precision:
    """Return the precision whose form multiplies by `weights` fastest and gives the same numbers.

    It is float16 in place of float32 on a CPU where that rounds no weight, nor twice a weight, and
    was measured to be faster on this kind of processor. Nothing is timed: the sums are added in
    another order, and the next start has to give the same bits.
    """
    if precision != "float32" or any(weight.device.type != "cpu" for weight in weights):
        return precision
    far = any(weight.numel() > _MOST_NEAR for weight in weights)
    faster = not far or torch.backends.cpu.get_cpu_capability() == "AVX2"
    exact = faster and packs(torch.float16) and all(_is_half(weight) for weight in weights)
    return "float16" if exact else precision


def _is_half(weight: Tensor) -> bool:
    is_small = float(weight.abs().max()) <= _LARGEST_HALF / 2 if weight.numel() else True
    return weight.dtype == torch.float32 and is_small and torch.equal(weight.half().float(), weight)


@cache
def has_eight_bits() -> bool:
    """Tell whether this build of torch and this processor multiply bytes exactly.

    Processors without VNNI add pairs in 16 bits, which the largest factors overflow.
    """
    is_close = gives_the_product(QuantisedLinear, 0.1)
    return is_close and gives_the_product(QuantisedLinear, 1e-4, torch.ones)


def gives_the_product(
    form: Callable[[Tensor], Linear],
    tolerance: float,
    draw: Callable[[tuple[int, int]], Tensor] | None = None,
) -> bool:
    """Tell whether a form gives the product of matrices of a shape, to a tolerance.

    `draw` gives their numbers, by default random ones. An operator that torch lacks counts as no.
    """
    generator = torch.Generator().manual_seed(0)
    draw = draw or (lambda shape: torch.randn(shape, generator=generator) / 4)
    weight, inputs, bias = draw((32, 64)), draw((3, 64)), draw((1, 32))[0]
    try:
        with torch.no_grad():
            made = form(weight)
            plain, twice = made.linear(inputs), made.addmm(made.with_bias(inputs, bias), inputs)
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False
    product = inputs @ weight.T
    close = (
        torch.allclose(plain, product, rtol=tolerance, atol=tolerance),
        torch.allclose(twice, 2 * product + bias, rtol=tolerance, atol=tolerance),
    )
    return all(close)
