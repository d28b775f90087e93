"""CuPy by nvcc: raw kernels with `backend='nvcc'`, through the shadow toolkit. (CuPy's default, NVRTC, calls no ptxas.)"""

import shutil

import toolkits
from gpu import lacks_hopper

PACKAGES = ("cupy", "numpy")


ptxas = toolkits.ptxas


def lacks():
    return "nvcc" if shutil.which("nvcc") is None else lacks_hopper()


def switch(fallback):
    return toolkits.switch("CuPy", fallback)


SOURCE = r"""
extern "C" __global__ void mandelbrot(int *out, int width, int steps)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float x0 = -2.0f + 3.0f * (at % width) / width, y0 = -1.5f + 3.0f * (at / width) / width, x = 0, y = 0;
    int n = 0;
    while (n < steps && x * x + y * y < 4) {
        float t = x * x - y * y + x0;
        y = 2 * x * y + y0;
        x = t;
        n++;
    }
    out[at] = n;
}
extern "C" __global__ void histogram(const unsigned *in, unsigned *out, int n)
{
    __shared__ unsigned part[256];
    part[threadIdx.x] = 0;
    __syncthreads();
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x)
        atomicAdd(&part[in[at] & 255], 1);
    __syncthreads();
    atomicAdd(&out[threadIdx.x], part[threadIdx.x]);
}
"""


def compiled():
    """What CuPy asks nvcc for, without a GPU to ask for its architecture."""
    from cupy.cuda import compiler

    return {"both": lambda: [compiler.compile_using_nvcc(SOURCE, arch="90")]}


def programs():
    import cupy
    import numpy

    def program(name, grid, arguments, out):
        def make():
            kept = {}

            def run():
                if not kept:
                    kept["kernel"] = cupy.RawModule(code=SOURCE, backend="nvcc").get_function(name)
                out.data.memset(0, out.nbytes)
                kept["kernel"](grid, (256,), arguments)
                cupy.cuda.Device().synchronize()

            return run, lambda: [out.get()]

        return make

    # Inputs come from NumPy: CuPy's own generators and fills call other libraries and NVRTC.
    data = cupy.asarray(numpy.random.default_rng(5).integers(0, 1 << 30, 1 << 22, dtype="u4"))
    places, counts = cupy.zeros(512 * 512, "i4"), cupy.zeros(256, "u4")
    return {
        "mandelbrot": program("mandelbrot", (1024,), (places, numpy.int32(512), numpy.int32(300)), places),
        "histogram": program("histogram", (128,), (data, counts, numpy.int32(1 << 22)), counts),
    }
