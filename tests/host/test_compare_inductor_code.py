"""Counting kernels, loops and library calls in what Inductor generates."""

from __future__ import annotations

from aten_backend.loop_level import graphs, inductor_code

WRAPPER = """
cpp_fused_add_0 = async_compile.cpp_pybinding(['float*'], r'''
extern "C" void kernel(float* out)
{
    #pragma omp parallel
    {
        {
            #pragma omp for
            for(int64_t x0=0; x0<8; x0+=1)
            {
                for(int64_t x1=0; x1<8; x1+=1)
                {
                    out[x0] = 1;
                }
            }
        }
        {
            for(int64_t x0=0; x0<8; x0+=1)
            {
                out[x0] = 2;
            }
        }
    }
}
''')


cpp_fused_mul_1 = async_compile.cpp_pybinding(['float*'], r'''
extern "C" void kernel(float* out)
{
    for (int i = 0; i < 2; i++)
    {
    }
}
''')

async_compile.wait(globals())

class Runner:
    def call(self, args):
        buf0 = empty_strided_cpu((8, ), (1, ), torch.float32)
        cpp_fused_add_0(arg0_1)
        extern_kernels.mm(arg0_1, arg1_1, out=buf0)
        buf1 = torch.ops.aten.sort.stable(buf0)
        cpp_fused_add_0(buf0)
        cpp_fused_mul_1(buf0)
        return (buf0, )


def get_args():
    arg0_1 = rand_strided((8,), (1,))


def benchmark_compiled_module(args, times=10, repeat=10):
    extern_kernels.mm(args)
"""


def test_counts():
    expected = inductor_code.InductorCounts(kernels=2, calls=3, loops=4, extern_calls=2)
    assert inductor_code.count([WRAPPER]) == expected
    assert inductor_code.count([WRAPPER, WRAPPER]) == expected, "generated, then loaded: one graph"
    assert inductor_code.count([]) == inductor_code.InductorCounts(0, 0, 0, 0)


def test_library_calls_keep_the_nodes_of_their_op():
    origins = {"cpp_0:1": ["mul", "attend", "own"], "torch.ops.aten.attend.default:2": ["attend", "mul"]}
    names = {"mul": "mul", "attend": "attend"}
    steps = graphs._steps(list(origins), origins, names, {"cpp_0": "text"})
    assert [(step.kind, step.nodes) for step in steps] == [("kernel", ("mul",)), ("aten", ("attend",))]
