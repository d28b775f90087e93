// A kernel for a debugger to walk through by source lines, with a branch, a loop and a function that is inlined: see cuda-gdb.sh.
__device__ float curve(float x) {
    float square = x * x;
    return square * 0.25f + 1.0f;
}

extern "C" __global__ void lines(float *out, const float *in, int steps, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    float value = in[at];
    #pragma unroll 1
    for (int step = 0; step < steps; ++step)
        value = curve(value);
    if (value > 1.5f)
        value = sqrtf(value);
    out[at] = value;
}
