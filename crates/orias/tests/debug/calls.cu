__device__ __noinline__ float inner(float x, int times) {
  float total = 1.0f;
  for (int t = 0; t < times; t++)
    total = total * x;
  return total;
}
__device__ __noinline__ float outer(float base, int count) {
  float first = inner(base, count);
  float second = inner(base + 1.0f, count - 1);
  return first - second;
}
extern "C" __global__ void calls(float *out, float seed) {
  int lane = threadIdx.x;
  float start = seed + lane;
  float result = outer(start, 3);
  out[lane] = result + start;
}
