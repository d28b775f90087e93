"""CuPy by nvcc: raw kernels with `backend='nvcc'`, through the shadow toolkit. (CuPy's default, NVRTC, calls no ptxas.)"""

import toolkits
from gpu import lacks_hopper as lacks

PACKAGES = ("cupy", "numpy")


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


def programs():
    import cupy

    def module():
        return cupy.RawModule(code=SOURCE, backend="nvcc", options=("-arch=sm_90",))

    def mandelbrot():
        out = cupy.zeros(512 * 512, "i4")
        kept = {}

        def run():
            kernel = kept.setdefault("kernel", module().get_function("mandelbrot")) if not kept else kept["kernel"]
            kernel((1024,), (256,), (out, cupy.int32(512), cupy.int32(300)))
            cupy.cuda.Device().synchronize()

        return run, lambda: [out.get()]

    def histogram():
        data = cupy.random.RandomState(5).randint(0, 1 << 30, 1 << 22, dtype="u4")
        out = cupy.zeros(256, "u4")
        kept = {}

        def run():
            kernel = kept.setdefault("kernel", module().get_function("histogram")) if not kept else kept["kernel"]
            out.fill(0)
            kernel((128,), (256,), (data, out, cupy.int32(1 << 22)))
            cupy.cuda.Device().synchronize()

        return run, lambda: [out.get()]

    return {"mandelbrot": mandelbrot, "histogram": histogram}
