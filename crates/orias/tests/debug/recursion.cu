__device__ __noinline__ int fib(int n) {
  if (n < 2)
    return n;
  int a = fib(n - 1);
  int b = fib(n - 2);
  return a + b;
}
extern "C" __global__ void recursion(int *out, int n) {
  int answer = fib(n);
  out[threadIdx.x] = answer;
}
