__constant__ int weights[4] = {1, 10, 100, 1000};
__device__ int total;
extern "C" __global__ void memory(int *out, const int *in) {
  __shared__ int tile[32];
  int lane = threadIdx.x;
  tile[lane] = in[lane];
  __syncthreads();
  int other = tile[31 - lane];
  int weighted = other * weights[lane & 3];
  atomicAdd(&total, weighted);
  __syncthreads();
  out[lane] = weighted;
}
