"""The names a kernel's text may use beside ``math``, ``np``, ``range``, ``min`` and ``max``.

Every name is a numba intrinsic that becomes LLVM instructions or one call of a SPIR-V built-in, with the types it was
given: nothing is promoted, nothing raises, nothing follows Python's rules for integers. ``LANGUAGE`` maps each name to
its intrinsic.

Loaded by file path inside the compiler process, so it imports numba, llvmlite and the standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

LANGUAGE: dict[str, Any] = {}

FLOATS = (types.float32, types.float64)
INTEGERS = tuple(getattr(types, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))
NUMBERS = FLOATS + INTEGERS
SCALARS = (*NUMBERS, types.boolean)

I1, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()

# Itanium manglings, by which llvm-spirv tells the overloads of a built-in apart.
MANGLED = {"float32": "f", "float64": "d", "int32": "i", "int64": "l", "uint32": "j", "uint64": "m"}

WORK_GROUP = 2  # SPIR-V Scope. Sub-group (3) silently gives partial results in groups larger than a sub-group.
REDUCE, INCLUSIVE_SCAN, EXCLUSIVE_SCAN = 0, 1, 2  # SPIR-V GroupOperation
# SequentiallyConsistent | WorkgroupMemory | CrossWorkgroupMemory
BARRIER_SEMANTICS = 0x10 | 0x100 | 0x200
DEVICE = 1  # SPIR-V Scope
TICKET_SEMANTICS = 0x8 | 0x200  # AcquireRelease | CrossWorkgroupMemory

Emit = Callable[..., Any]


def _signed(ty: Any) -> bool:
    return isinstance(ty, types.Integer) and ty.signed


def _one_type(name: str, args: Sequence[Any], allowed: Sequence[Any]) -> Any:
    """The single type all arguments have; anything else would need a promotion, which only the text may decide."""
    plain = [types.unliteral(arg) for arg in args]
    if any(ty != plain[0] for ty in plain[1:]) or plain[0] not in allowed:
        raise TypingError(f"{name}({', '.join(map(str, plain))}): needs one type out of {', '.join(map(str, allowed))}")
    return plain[0]


def _define(name: str, arity: int, typer: Callable[[list[Any]], Any], emit: Emit) -> None:
    """Register intrinsic ``name``: ``typer(argument types) -> signature``; ``emit(builder, signature, values)``."""

    def resolve(args: tuple[Any, ...]) -> Any:
        signature = typer([types.unliteral(arg) for arg in args])

        def codegen(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            return emit(builder, sig, list(values))

        return signature, codegen

    # numba reads the parameter list, so each arity needs its own function
    bodies: list[Callable[..., Any]] = [
        lambda typingctx: resolve(()),
        lambda typingctx, a: resolve((a,)),
        lambda typingctx, a, b: resolve((a, b)),
        lambda typingctx, a, b, c: resolve((a, b, c)),
    ]
    body = bodies[arity]
    body.__name__ = body.__qualname__ = name
    if name in LANGUAGE:
        raise AssertionError(f"kernel language: {name} defined twice")
    LANGUAGE[name] = intrinsic(body)


def _define_uniform(name: str, arity: int, allowed: Sequence[Any], emit: Emit) -> None:
    """Register an operation over ``arity`` values of one type that returns the same type."""

    def typer(args: list[Any]) -> Any:
        ty = _one_type(name, args, allowed)
        return ty(*args)

    _define(name, arity, typer, emit)


def _define_fixed(name: str, argument: Any, result: Any, emit: Emit) -> None:
    """Register a one-argument operation with exactly one signature."""

    def typer(args: list[Any]) -> Any:
        _one_type(name, args, (argument,))
        return result(argument)

    _define(name, 1, typer, emit)


def _call(builder: Any, name: str, result: Any, args: Sequence[Any], *, pure: bool) -> Any:
    """Call the external SPIR-V built-in with the mangled ``name``."""
    function_type = ir.FunctionType(result, [arg.type for arg in args])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    function.calling_convention = "spir_func"
    function.attributes.add("nounwind")
    function.attributes.add("readnone" if pure else "convergent")
    # convergent: all work-items arrive together, so the call must not be moved into or out of branches
    return builder.call(function, args, cconv="spir_func", attrs=() if pure else ("convergent",))


def _mangle(name: str, codes: str) -> str:
    return f"_Z{len(name)}{name}{codes}"


# ---- work-group operations ------------------------------------------------------------------------

GROUP_TYPES = (types.float32, types.float64, types.int32, types.int64, types.uint32, types.uint64)


def _group_instruction(operation: str, ty: Any) -> str:
    if ty in FLOATS:
        return f"__spirv_GroupF{operation}"
    if operation == "Add":
        return "__spirv_GroupIAdd"
    return f"__spirv_Group{'S' if ty.signed else 'U'}{operation}"


def _emit_group(builder: Any, operation: str, group_operation: int, ty: Any, value: Any) -> Any:
    mangled = _mangle(_group_instruction(operation, ty), f"ii{MANGLED[str(ty)]}")
    return _call(builder, mangled, value.type, [I32(WORK_GROUP), I32(group_operation), value], pure=False)


def _define_group(name: str, operation: str, group_operation: int) -> None:
    def emit(builder: Any, sig: Any, values: list[Any]) -> Any:
        return _emit_group(builder, operation, group_operation, sig.return_type, values[0])

    _define_uniform(name, 1, GROUP_TYPES, emit)


def _define_nan_reduction(name: str, operation: str) -> None:
    """SPIR-V's maximum and minimum pass over NaN; eager's do not. Takes a second group instruction."""

    def emit(builder: Any, sig: Any, values: list[Any]) -> Any:
        result = _emit_group(builder, operation, REDUCE, sig.return_type, values[0])
        nan = builder.zext(_emit_isnan(builder, sig, values), I32)
        found = builder.icmp_unsigned("!=", _emit_group(builder, "Max", REDUCE, types.uint32, nan), I32(0))
        return builder.select(found, ir.Constant(result.type, float("nan")), result)

    _define_uniform(name, 1, FLOATS, emit)


def _emit_broadcast(builder: Any, sig: Any, values: list[Any]) -> Any:
    value, lane = values
    code = MANGLED[str(sig.return_type)]
    lane = builder.zext(lane, I64) if lane.type.width < 64 else lane
    mangled = _mangle("__spirv_GroupBroadcast", f"i{code}m")
    return _call(builder, mangled, value.type, [I32(WORK_GROUP), value, lane], pure=False)


def _type_broadcast(args: list[Any]) -> Any:
    ty = _one_type("group_broadcast", args[:1], GROUP_TYPES)
    _one_type("group_broadcast", args[1:], INTEGERS)
    return ty(*args)


def _emit_barrier(builder: Any, sig: Any, values: list[Any]) -> Any:
    scope = I32(WORK_GROUP)
    name = _mangle("__spirv_ControlBarrier", "iii")
    _call(builder, name, ir.VoidType(), [scope, scope, I32(BARRIER_SEMANTICS)], pure=False)
    return ir.Constant(ir.IntType(8).as_pointer(), None)  # numba's None


for _operation in ("Add", "Max", "Min"):
    _short = _operation.lower()
    _define_group(f"group_{_short}", _operation, REDUCE)
    _define_group(f"group_scan_inclusive_{_short}", _operation, INCLUSIVE_SCAN)
_define_nan_reduction("group_max_nan", "Max")
_define_nan_reduction("group_min_nan", "Min")
_define_group("group_scan_exclusive_add", "Add", EXCLUSIVE_SCAN)
_define("group_broadcast", 2, _type_broadcast, _emit_broadcast)
_define("barrier", 0, lambda args: types.none(), _emit_barrier)


def _type_ticket(args: list[Any]) -> Any:
    if not isinstance(args[0], types.CPointer) or args[0].dtype != types.int32:
        raise TypingError(f"take_ticket({args[0]}): needs the address of an int32")
    return types.int32(args[0])


def _emit_ticket(builder: Any, sig: Any, values: list[Any]) -> Any:
    """Add one to a counter in memory that all work-groups share; gives what it was before."""
    mangled = _mangle("__spirv_AtomicIIncrement", "PU3AS1iii")
    return _call(builder, mangled, I32, [values[0], I32(DEVICE), I32(TICKET_SEMANTICS)], pure=False)


_define("take_ticket", 1, _type_ticket, _emit_ticket)


def _define_work_group(dimension: int) -> None:
    """Where a work-group is along ``dimension`` of the whole range, of which a launch may be given a part: then OpenCL
    counts ids of work-items from the start of the whole, but work-groups from the start of the part. The argument is
    how many work-items make a work-group there."""

    def built_in(builder: Any, name: str) -> Any:
        return _call(builder, _mangle(f"__spirv_BuiltIn{name}", "i"), I64, [I32(dimension)], pure=True)

    def emit(builder: Any, sig: Any, values: list[Any]) -> Any:
        before = builder.udiv(built_in(builder, "GlobalOffset"), values[0])
        return builder.add(built_in(builder, "WorkgroupId"), before)

    _define_fixed(f"work_group_{dimension}", types.int64, types.int64, emit)


for _dimension in range(3):
    _define_work_group(_dimension)


# ---- OpenCL's mathematical functions --------------------------------------------------------------

UNARY_MATH = (
    *("exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "logb", "sqrt", "rsqrt", "cbrt"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sinpi"),
    *("erfc", "lgamma", "tgamma", "floor", "ceil", "trunc", "rint", "round", "fabs"),
)
BINARY_MATH = ("pow", "atan2", "fmod", "hypot", "copysign", "nextafter", "fmin", "fmax", "remainder")


def _ocl(builder: Any, name: str, ty: Any, *values: Any) -> Any:
    """A function of OpenCL's library, of operands of one type."""
    mangled = _mangle(f"__spirv_ocl_{name}", MANGLED[str(ty)] * len(values))
    return _call(builder, mangled, values[0].type, values, pure=True)


def _define_math(name: str, arity: int) -> None:
    def emit(builder: Any, sig: Any, values: list[Any]) -> Any:
        return _ocl(builder, name, sig.return_type, *values)

    _define_uniform(name, arity, FLOATS, emit)


for _arity, _names in ((1, UNARY_MATH), (2, BINARY_MATH), (3, ["fma"])):
    for _name in _names:
        _define_math(_name, _arity)


# erf(x)/x - 1 over x*x, for x of at most ERF_SMALL, and -log(erfc(x))/x - 1 over x, up to where erf is one: polynomials
# of least largest error (Lawson's algorithm), lowest power first. What they give is within 1.1 steps of float32.
ERF_SMALL, ERF_ONE = 0.9375, 4.0
ERF_NEAR_ZERO = (
    *(0.12837916612625122, -0.37612631916999817, 0.1128367930650711, -0.02685849741101265),
    *(0.005198830738663673, -0.0008118081605061889, 8.26748218969442e-05),
)
ERF_ABOVE = (
    *(0.12851177155971527, 0.635727047920227, 0.10525041818618774, -0.022882666438817978),
    *(0.0032126870937645435, -0.0002137105184374377),
)
POWER_OF_TWO = (
    *(1.0, 0.6931471824645996, 0.24022646248340607, 0.05550328642129898),
    *(0.009618489071726799, 0.0013399930903688073, 0.00015345810970757157),
)
"""2**x for x between -1/2 and 1/2, fitted in the same way: to a hundredth of a step."""


def _polynomial(builder: Any, coefficients: Sequence[float], x: Any) -> Any:
    *rest, total = (ir.Constant(F32, c) for c in coefficients)
    for coefficient in reversed(rest):
        total = _ocl(builder, "fma", types.float32, total, x, coefficient)
    return total


def _exp_of_few(builder: Any, x: Any) -> Any:
    """exp(x) in float32 for x that is no NaN and of no more than two digits."""
    log2e = ir.Constant(F32, 1.4426950216293335)
    whole = _ocl(builder, "rint", types.float32, builder.fmul(x, log2e))
    part = _ocl(builder, "fma", types.float32, x, log2e, builder.fneg(whole))
    power = builder.bitcast(_polynomial(builder, POWER_OF_TWO, part), I32)
    return builder.bitcast(builder.add(power, builder.shl(builder.fptosi(whole, I32), I32(23))), F32)


def _emit_erf(builder: Any, sig: Any, values: list[Any]) -> Any:
    """OpenCL's takes nearly twice as long in float32. A NaN is near zero, in that no comparison holds."""
    (x,), ty = values, sig.return_type
    if ty == types.float64:
        return _ocl(builder, "erf", ty, x)
    size = _ocl(builder, "fabs", ty, x)
    near_zero = _ocl(builder, "fma", ty, _polynomial(builder, ERF_NEAR_ZERO, builder.fmul(x, x)), x, x)
    one = ir.Constant(F32, ERF_ONE)
    large = builder.select(builder.fcmp_ordered("<", size, one), size, one)
    exponent = _ocl(builder, "fma", ty, _polynomial(builder, ERF_ABOVE, large), large, large)
    complement = _exp_of_few(builder, builder.fneg(exponent))
    above = _ocl(builder, "copysign", ty, builder.fsub(ir.Constant(F32, 1.0), complement), x)
    is_large = builder.fcmp_ordered(">", size, ir.Constant(F32, ERF_SMALL))
    return builder.select(is_large, above, near_zero)


_define_uniform("erf", 1, FLOATS, _emit_erf)


def _emit_isinf(builder: Any, sig: Any, values: list[Any]) -> Any:
    value = values[0]
    infinities = [ir.Constant(value.type, sign * float("inf")) for sign in (1, -1)]
    return builder.or_(*[builder.fcmp_ordered("==", value, infinity) for infinity in infinities])


def _emit_isnan(builder: Any, sig: Any, values: list[Any]) -> Any:
    return builder.fcmp_unordered("uno", values[0], values[0])


_define("isnan", 1, lambda args: types.boolean(_one_type("isnan", args, FLOATS)), _emit_isnan)
_define("isinf", 1, lambda args: types.boolean(_one_type("isinf", args, FLOATS)), _emit_isinf)


# ---- selection and integers -----------------------------------------------------------------------


def _type_select(args: list[Any]) -> Any:
    _one_type("select", args[:1], (types.boolean,))
    return _one_type("select", args[1:], SCALARS)(*args)


_define("select", 3, _type_select, lambda builder, sig, values: builder.select(*values))


def _define_integer(name: str, allowed: Sequence[Any], signed: str, unsigned: str) -> None:
    """A binary integer instruction, which LLVM may name differently for signed and unsigned operands."""

    def emit(builder: Any, sig: Any, values: list[Any]) -> Any:
        return getattr(builder, signed if _signed(sig.return_type) else unsigned)(*values)

    _define_uniform(name, 2, allowed, emit)


_LOGICAL = (*INTEGERS, types.boolean)
for _name, _allowed, _for_signed, _for_unsigned in (
    ("sdiv", INTEGERS, "sdiv", "udiv"),
    ("srem", INTEGERS, "srem", "urem"),
    ("shl", INTEGERS, "shl", "shl"),
    ("shr", INTEGERS, "ashr", "lshr"),
    ("iadd", INTEGERS, "add", "add"),
    ("isub", INTEGERS, "sub", "sub"),
    ("imul", INTEGERS, "mul", "mul"),
    ("iand", _LOGICAL, "and_", "and_"),
    ("ior", _LOGICAL, "or_", "or_"),
    ("ixor", _LOGICAL, "xor", "xor"),
):
    _define_integer(_name, _allowed, _for_signed, _for_unsigned)
_define_uniform("inot", 1, _LOGICAL, lambda builder, sig, values: builder.not_(values[0]))
_define_uniform("ineg", 1, INTEGERS, lambda builder, sig, values: builder.neg(values[0]))


# ---- casts ----------------------------------------------------------------------------------------


def _float_to_signed(builder: Any, value: Any, bits: int) -> Any:
    """Truncate towards zero; out of range and NaN give the lowest integer, as x86's cvttss2si does.

    LLVM leaves those cases undefined, so the value is replaced before the conversion.
    """
    limit = 2.0 ** (bits - 1)
    # -limit is exact in both types. Doubles just below it truncate to it, which is what out of range gives as well.
    inside = builder.and_(
        builder.fcmp_ordered(">=", value, ir.Constant(value.type, -limit)),
        builder.fcmp_ordered("<", value, ir.Constant(value.type, limit)),
    )
    target = ir.IntType(bits)
    safe = builder.select(inside, value, ir.Constant(value.type, 0.0))
    return builder.select(inside, builder.fptosi(safe, target), target(-(2 ** (bits - 1))))


def _float_to_uint64(builder: Any, value: Any) -> Any:
    """As compilers do on x86 without AVX-512: from 2**63 upwards convert the difference and put the top bit back."""
    limit = ir.Constant(value.type, 2.0**63)
    big = builder.fcmp_ordered(">=", value, limit)
    low = _float_to_signed(builder, value, 64)
    high = builder.xor(_float_to_signed(builder, builder.fsub(value, limit), 64), I64(-(2**63)))
    return builder.select(big, high, low)


def _from_float(builder: Any, value: Any, target: Any) -> Any:
    if target == types.boolean:
        return builder.fcmp_unordered("!=", value, ir.Constant(value.type, 0.0))  # NaN is true
    if target in FLOATS:  # the other one
        return builder.fptrunc(value, F32) if target == types.float32 else builder.fpext(value, F64)
    if target == types.uint64:
        return _float_to_uint64(builder, value)
    # Narrow types go through a wider signed one and drop the upper bits, as the C++ in ATen does. (For uint32 and out
    # of range, ATen's vectorised loops and its scalar ones differ; this is the scalar one.)
    bits = 64 if target in (types.int64, types.uint8, types.uint32) else 32
    wide = _float_to_signed(builder, value, bits)
    return builder.trunc(wide, ir.IntType(target.bitwidth)) if target.bitwidth < bits else wide


def _from_integer(builder: Any, value: Any, source: Any, target: Any) -> Any:
    if target == types.boolean:
        return builder.icmp_unsigned("!=", value, value.type(0))
    if target in FLOATS:
        wanted = F32 if target == types.float32 else F64
        return builder.sitofp(value, wanted) if _signed(source) else builder.uitofp(value, wanted)
    wanted = ir.IntType(target.bitwidth)
    if wanted.width == value.type.width:
        return value
    if wanted.width < value.type.width:
        return builder.trunc(value, wanted)
    return builder.sext(value, wanted) if _signed(source) else builder.zext(value, wanted)


def _define_cast(target: Any) -> None:
    name = "cast_bool" if target == types.boolean else f"cast_{target}"

    def emit(builder: Any, sig: Any, values: list[Any]) -> Any:
        source, value = sig.args[0], values[0]
        if source == target:
            return value
        if source in FLOATS:
            return _from_float(builder, value, target)
        return _from_integer(builder, value, source, target)  # bool is an unsigned integer of one bit

    _define(name, 1, lambda args: target(_one_type(name, args, SCALARS)), emit)


for _target in SCALARS:
    _define_cast(_target)


def _define_bitcast(name: str, source: Any, target: Any, llvm: Any) -> None:
    _define_fixed(name, source, target, lambda builder, sig, values: builder.bitcast(values[0], llvm))


_define_bitcast("bitcast_f32_u32", types.float32, types.uint32, I32)
_define_bitcast("bitcast_u32_f32", types.uint32, types.float32, F32)
_define_bitcast("bitcast_f64_u64", types.float64, types.uint64, I64)
_define_bitcast("bitcast_u64_f64", types.uint64, types.float64, F64)


# ---- half types, which travel as uint16 -----------------------------------------------------------
# Written with integer instructions and selects: they vectorise, and no device needs to know half types.


def _emit_bf16_to_f32(builder: Any, sig: Any, values: list[Any]) -> Any:
    return builder.bitcast(builder.shl(builder.zext(values[0], I32), I32(16)), F32)


def _emit_f32_to_bf16(builder: Any, sig: Any, values: list[Any]) -> Any:
    bits = builder.bitcast(values[0], I32)
    odd = builder.and_(builder.lshr(bits, I32(16)), I32(1))
    rounded = builder.lshr(builder.add(bits, builder.add(odd, I32(0x7FFF))), I32(16))
    nan = _emit_isnan(builder, sig, values)
    return builder.trunc(builder.select(nan, I32(0x7FC0), rounded), I16)


def _emit_f16_to_f32(builder: Any, sig: Any, values: list[Any]) -> Any:
    half = builder.zext(values[0], I32)
    shifted = builder.shl(builder.and_(half, I32(0x7FFF)), I32(13))
    exponent = builder.and_(shifted, I32(0x7C00 << 13))
    normal = builder.add(shifted, I32((127 - 15) << 23))
    # infinities and NaN need the exponent adjusted once more
    special = builder.add(normal, I32((128 - 16) << 23))
    # denormals: give them the smallest exponent as an implicit one, and let a float subtraction normalise
    denormal_float = builder.fsub(
        builder.bitcast(builder.add(normal, I32(1 << 23)), F32), builder.bitcast(I32(113 << 23), F32)
    )
    denormal = builder.bitcast(denormal_float, I32)
    magnitude = builder.select(builder.icmp_unsigned("==", exponent, I32(0)), denormal, normal)
    magnitude = builder.select(builder.icmp_unsigned("==", exponent, I32(0x7C00 << 13)), special, magnitude)
    sign = builder.shl(builder.and_(half, I32(0x8000)), I32(16))
    return builder.bitcast(builder.or_(magnitude, sign), F32)


def _emit_f32_to_f16(builder: Any, sig: Any, values: list[Any]) -> Any:
    bits = builder.bitcast(values[0], I32)
    sign = builder.and_(bits, I32(0x80000000))
    magnitude = builder.xor(bits, sign)
    # normal results: rebias, add half a step less one, and one more if the kept part is odd (ties to even)
    odd = builder.and_(builder.lshr(magnitude, I32(13)), I32(1))
    rebias = I32(((15 - 127) << 23) + 0xFFF)
    normal = builder.lshr(builder.add(builder.add(magnitude, rebias), odd), I32(13))
    # denormal results: a float addition shifts the kept bits to the bottom and rounds them to even
    magic = I32((127 - 15 + 23 - 10 + 1) << 23)
    total = builder.fadd(builder.bitcast(magnitude, F32), builder.bitcast(magic, F32))
    denormal = builder.sub(builder.bitcast(total, I32), magic)
    small = builder.icmp_unsigned("<", magnitude, I32(113 << 23))
    result = builder.select(small, denormal, normal)
    # too large: infinity; a NaN stays one, with the upper bits of its payload
    large = builder.icmp_unsigned(">=", magnitude, I32((127 + 16) << 23))
    nan = builder.icmp_unsigned(">", magnitude, I32(255 << 23))
    result = builder.select(large, builder.select(nan, I32(0x7E00), I32(0x7C00)), result)
    return builder.trunc(builder.or_(result, builder.lshr(sign, I32(16))), I16)


_define_fixed("bf16_to_f32", types.uint16, types.float32, _emit_bf16_to_f32)
_define_fixed("f32_to_bf16", types.float32, types.uint16, _emit_f32_to_bf16)
_define_fixed("f16_to_f32", types.uint16, types.float32, _emit_f16_to_f32)
_define_fixed("f32_to_f16", types.float32, types.uint16, _emit_f32_to_f16)
